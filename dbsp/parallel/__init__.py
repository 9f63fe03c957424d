"""Large batches in pieces, on several cores: the threads, and the kernels that they share.

Compiled kernels run without the lock of the interpreter, so threads run them side by side. Every
function here returns the same rows, weights and errors with any number of threads.
"""
