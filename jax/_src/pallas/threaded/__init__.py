"""What interpreters share that run the threads or cores of a kernel at once: a scheduler, programs between waits, views of memory."""
