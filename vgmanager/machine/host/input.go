package host

import (
	"fmt"
	"os"
	"os/exec"
)

const (
	// MaxInput is the maximum size of an input in bytes. A pipe holds it (pipe(7)), so that no goroutine has to write
	// it while the program runs.
	MaxInput = 4096
	// SecondInput is the path at which a program can open its second input: its first file besides stdin, stdout and
	// stderr.
	SecondInput = "/proc/self/fd/3"
)

// attach gives a command its inputs. The caller closes the files when the command has started, or could not be started.
func attach(cmd *exec.Cmd, inputs [][]byte) (files []*os.File, err error) {
	for i, input := range inputs {
		file, err := pipeOf(input)
		if err != nil {
			return files, fmt.Errorf("input %d of the program: %w", i+1, err)
		}
		files = append(files, file)
		if i == 0 {
			cmd.Stdin = file
			continue
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	return files, nil
}

// pipeOf returns the end of a pipe at which a program reads an input.
func pipeOf(input []byte) (*os.File, error) {
	if len(input) > MaxInput {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", len(input), MaxInput)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = write.Write(input)
	if closeErr := write.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = read.Close()
		return nil, err
	}
	return read, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}
