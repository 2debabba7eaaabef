"""Every benchmark: python -m benchmarks, or make bench."""

from benchmarks import corruptions, matching

matching.main()
corruptions.main()
