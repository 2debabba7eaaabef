"""What every part may use: files, progress, parallel work, hashes."""
