/* Traces a child and writes 2,696 bytes of its XSAVE area back, as User Mode Linux does; then looks whether the child kept and took what it should. */
#define _GNU_SOURCE
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char area[2696] __attribute__((aligned(64)));

static int child(void)
{
	double kept;

	ptrace(PTRACE_TRACEME, 0, 0, 0);
	/* The tracer changes xmm7 while the child is stopped. */
	asm volatile("movsd %1, %%xmm7\n\t"
		     "mov $39, %%eax\n\tsyscall\n\t"       /* getpid */
		     "mov %%eax, %%edi\n\tmov $19, %%esi\n\t" /* SIGSTOP */
		     "mov $62, %%eax\n\tsyscall\n\t"       /* kill */
		     "movsd %%xmm7, %0"
		     : "=m"(kept)
		     : "m"((double){1.5})
		     : "rax", "rdi", "rsi", "rcx", "r11", "xmm7", "memory");
	return kept == 2.5 ? 0 : 1;
}

int main(void)
{
	pid_t pid = fork();
	int status;
	double value = 2.5;
	struct iovec given = { area, sizeof(area) };

	if (pid == 0)
		_exit(child());
	if (waitpid(pid, &status, 0) < 0 || !WIFSTOPPED(status))
		return 2;
	/* Twice: the library measures at the first call only. */
	for (int i = 0; i < 2; i++) {
		if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &given) < 0)
			return 3;
		memcpy(area + 160 + 7 * 16, &value, sizeof(value)); /* xmm7 in the legacy area */
		if (ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &given) < 0) {
			kill(pid, SIGKILL);
			return 4;
		}
	}
	ptrace(PTRACE_CONT, pid, 0, 0);
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 5;
	return WEXITSTATUS(status);
}
