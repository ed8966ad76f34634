package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Terminal is where a command says what it does, and asks.
type Terminal struct {
	in          *bufio.Reader
	Interactive bool
	Out, ErrOut io.Writer
}

// Terminal returns the terminal of a command.
func (e *Environment) Terminal(command *cobra.Command) *Terminal {
	in := command.InOrStdin()
	return &Terminal{in: bufio.NewReader(in), Interactive: e.IsTerminal(in), Out: command.OutOrStdout(),
		ErrOut: command.ErrOrStderr()}
}

// isTerminal returns true if a person types the input.
func isTerminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Confirm asks a question whose answer is yes or no. With --yes, it does not ask. Without a terminal, it refuses.
func (t *Terminal) Confirm(ctx context.Context, w *Writing, question string) error {
	if w.Yes {
		return nil
	}
	answer, err := t.Ask(ctx, question+" [y/N]: ")
	if err != nil {
		return err
	}
	if !IsYes(answer) {
		return errors.New("nothing was changed, because the answer was not yes")
	}
	return nil
}

// Ask returns the answer to a question. Without a terminal, nobody can answer it.
func (t *Terminal) Ask(ctx context.Context, question string) (string, error) {
	if !t.Interactive {
		return "", errors.New("nothing was changed: there is no terminal to ask on. Check what --dry-run=client " +
			"prints, and add --yes")
	}
	fmt.Fprint(t.Out, question)
	answers := make(chan string, 1)
	go func() {
		line, _ := t.in.ReadString('\n') // an input that has ended is no answer
		answers <- strings.TrimSpace(line)
	}()
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		fmt.Fprintln(t.Out)
		return "", errors.New("nothing was changed: the question was interrupted")
	}
}

// IsYes returns true if an answer is yes.
func IsYes(answer string) bool {
	return strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
}
