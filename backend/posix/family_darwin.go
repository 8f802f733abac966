package posix

const kernelThreads = -1 // macOS lists none
