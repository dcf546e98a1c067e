"""The platform part of a wheel's tag: "any", or the needs of the shared object for processors."""

from aotpack.stages import HostBuild

OLDEST_GLIBC = (2, 17)  # the first that has a manylinux tag of the form used here


def platform_tag(host: HostBuild | None) -> str:
    """``manylinux_2_29_x86_64`` for code that uses symbols of glibc 2.29."""
    if host is None:
        return "any"
    if host.glibc is None:
        return f"linux_{host.machine}"
    major, minor = max(host.glibc, OLDEST_GLIBC)
    return f"manylinux_{major}_{minor}_{host.machine}"


def requirements(targets: tuple[str, ...], *, calls_torch: bool = False) -> tuple[str, ...]:
    """The requirements of a package for these targets at run time."""
    found = ("numpy",) if targets == ("cpu",) else ("cuda-bindings", "numpy")
    return (*found, "torch") if calls_torch else found
