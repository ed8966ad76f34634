package lab

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstCPU returns the offset of the processors for the nodes of a new lab: the first node gets the processor that the
// fewest processes of nodes use. Each node is restricted to one processor. If two labs chose them at random, they would
// often share one while another is idle.
func firstCPU() int {
	cpus := processors(0)
	// The number of the first node, 1, is added to the offset.
	return leastUsed(cpus, usedProcessors(), rand.IntN(len(cpus))) + len(cpus) - 1
}

// leastUsed returns the index of the processor with the lowest use. It begins to compare at start.
func leastUsed(cpus []int, used map[int]int, start int) int {
	least := start
	for i := range cpus {
		if at := (start + i) % len(cpus); used[cpus[at]] < used[cpus[least]] {
			least = at
		}
	}
	return least
}

// usedProcessors returns the number of processes of nodes for each processor.
func usedProcessors() map[int]int {
	used := map[int]int{}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return used
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00umid=")) {
			continue // the process has ended, or is another program
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if cpus := processors(pid); len(cpus) == 1 {
			used[cpus[0]]++
		}
	}
	return used
}

// processors returns the processors that a process may use, of which there is at least one; 0 stands for this process.
func processors(pid int) []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return []int{0}
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
