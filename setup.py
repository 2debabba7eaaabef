"""What pyproject.toml cannot say: a compiled kernel that is left out, without harm, where it cannot be built."""

from platform import machine

from setuptools import Extension, setup

X86 = machine().lower() in ("x86_64", "amd64")

setup(
    ext_modules=[
        Extension(
            "shiftmatch.core._kernels",
            ["src/shiftmatch/core/_kernels.c"],
            extra_compile_args=["-O3", "-fno-math-errno", "-fno-trapping-math", *(["-mavx2", "-mfma"] if X86 else [])],
            optional=True,
            py_limited_api=True,
        )
    ],
)
