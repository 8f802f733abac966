package posix

// kernelThreads is the parent of the threads of the kernel, which have no
// environment.
const kernelThreads = 2
