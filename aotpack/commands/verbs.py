"""The verbs of the command line, each with its help."""

VERBS = {
    "build": "package a model as a wheel (the default: aotpack MODEL -o DIR)",
    "inspect": "what is inside a wheel: kernels, sizes, memory, weights",
    "verify": "check a wheel's answers, and that it compiles nothing",
    "sign": "sign a wheel and how it was made, for verify --key",
    "bench": "time a wheel on its golden inputs",
    "tune": "time the candidate kernels inside a wheel, for the next build",
    "doctor": "what this machine can build and run, and what is missing",
    "show": "the stage products of a model as text",
    "completion": "a script that completes words in a shell",
}
