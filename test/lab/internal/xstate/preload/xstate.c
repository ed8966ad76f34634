/*
 * A preload for User Mode Linux before 6.13, which cannot run on processors whose XSAVE area is larger than its own buffer.
 *
 * The kernel saves the floating-point registers of a process in a buffer of fixed size, from x87 to PKRU
 * (arch/x86/um/os-Linux/registers.c). PTRACE_GETREGSET cuts the host's area to the buffer; PTRACE_SETREGSET refuses
 * anything shorter than the whole area with EFAULT (xstateregs_set in arch/x86/kernel/fpu/regset.c). On a processor
 * with AMX the area has 11,008 bytes, and the kernel panics at its first process.
 *
 * This library stands in front of the C library's ptrace and passes the whole area for that one request. It allocates
 * nothing: User Mode Linux brings its own malloc.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Intel SDM, volume 1, 13.4.2: XSTATE_BV, the first field of the header, says which components are not in their initial state. */
#define HEADER 512
/* The components that User Mode Linux' buffer has: x87 to PKRU. */
#define KNOWN 0x3ffULL

static char area[65536] __attribute__((aligned(64)));
static size_t area_size;

static long request(int op, pid_t pid, void *addr, void *data)
{
	return syscall(SYS_ptrace, op, pid, addr, data);
}

/* Widens what the kernel gave to the host's whole area. The rest of the area stays as the process has it, or initial. */
static long set_xstate(pid_t pid, void *addr, struct iovec *given)
{
	struct iovec all = { area, sizeof(area) };
	uint64_t components = 0;

	if (given->iov_len >= HEADER + sizeof(components))
		memcpy(&components, (char *)given->iov_base + HEADER, sizeof(components));
	if (!area_size || components & ~KNOWN) {
		if (request(PTRACE_GETREGSET, pid, addr, &all) < 0)
			return -1;
		area_size = all.iov_len;
	}
	if (area_size <= given->iov_len)
		return request(PTRACE_SETREGSET, pid, addr, given);
	memcpy(area, given->iov_base, given->iov_len);
	all.iov_len = area_size;
	return request(PTRACE_SETREGSET, pid, addr, &all);
}

long ptrace(enum __ptrace_request op, ...)
{
	va_list list;
	long word, result;

	va_start(list, op);
	pid_t pid = va_arg(list, pid_t);
	void *addr = va_arg(list, void *);
	void *data = va_arg(list, void *);
	va_end(list);
	switch (op) {
	case PTRACE_SETREGSET:
		if (addr == (void *)NT_X86_XSTATE)
			return set_xstate(pid, addr, data);
		break;
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
	case PTRACE_PEEKUSER:
		/* The C library returns the word, and the system call stores it. */
		result = request(op, pid, addr, &word);
		if (result < 0)
			return result;
		errno = 0;
		return word;
	default:
		break;
	}
	return request(op, pid, addr, data);
}
