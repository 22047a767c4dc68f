"""Measured regions for Python: preload/include/mallow.h by way of ctypes, in one file to copy.

    import mallow
    mallow.measure("parse", lambda: parse(document))

    with mallow.region("parse") as region:
        region.operations = parse(document)

Under `mallow test` a measured function runs as often as the test wants, and what each run allocates is counted; without
Mallow it runs once. CPython takes small objects from an allocator of its own: set PYTHONMALLOC=malloc to have them counted.
"""

import ctypes

WHOLE_PROCESS = 0
THIS_THREAD = 1

_Function = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)


class _Region(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("scope", ctypes.c_uint32), ("state", ctypes.c_uint32), ("own", ctypes.c_uint64 * 14)]


class _Api(ctypes.Structure):
    _fields_ = [
        ("bytes", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("measure", ctypes.CFUNCTYPE(None, ctypes.c_char_p, _Function, ctypes.c_void_p, ctypes.c_uint32)),
        ("begin", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Region), ctypes.c_char_p, ctypes.c_uint32)),
        ("end", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Region), ctypes.c_long)),
        ("operations", ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)),
    ]


def _library():
    try:
        api = _Api.in_dll(ctypes.CDLL(None), "mallow_api_1")
    except (ValueError, OSError):
        return None
    return api if api.version == 1 and api.bytes >= ctypes.sizeof(_Api) else None


_api = _library()


def measure(name, function, scope=WHOLE_PROCESS):
    """Runs `function`, which returns how many operations it performed, or None. An exception ends the runs."""
    if _api is None:
        function()
        return
    raised = []

    def run(_):
        if raised:
            return 0
        try:
            return int(function() or 0)
        except BaseException as error:
            raised.append(error)
            return 0

    _api.measure(name.encode(), _Function(run), None, scope)
    if raised:
        raise raised[0]


class region:
    """A measured run from `with` to its end."""

    def __init__(self, name, scope=WHOLE_PROCESS):
        self.operations = 0
        self._name = name.encode()
        self._scope = scope
        self._region = _Region()

    def __enter__(self):
        if _api is not None:
            _api.begin(ctypes.byref(self._region), self._name, self._scope)
        return self

    def __exit__(self, *_):
        if _api is not None:
            _api.end(ctypes.byref(self._region), int(self.operations or 0))


def operations(otherwise):
    """How many operations the test wants a run to perform; `otherwise` where it does not say."""
    return otherwise if _api is None else _api.operations(otherwise)
