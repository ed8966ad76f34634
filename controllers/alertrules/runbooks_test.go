package alertrules

import (
	"strings"
	"testing"
)

func TestRunbooks(t *testing.T) {
	const problem = "must begin with https:// or http://"
	for text, tt := range map[string]struct{ want, problem string }{
		"":                                   {want: DefaultRunbooks},
		"https://git.example.com/runbooks/":  {want: "https://git.example.com/runbooks/"},
		"http://git.example.com/lvms":        {want: "http://git.example.com/lvms/"},
		"https://example.com":                {want: "https://example.com/"},
		"git.example.com/runbooks":           {problem: problem},
		"ftp://example.com/":                 {problem: problem},
		"https://":                           {problem: problem},
		"https://example.com/?branch=main":   {problem: problem},
		"https://example.com/#runbooks":      {problem: problem},
		"https://example.com/ runbooks/%zz/": {problem: problem},
		"https://user:secret@example.com/":   {problem: problem},
	} {
		got, err := Runbooks(text)
		if got != tt.want || (err == nil) != (tt.problem == "") ||
			err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the password: %v", text, err)
		}
	}
}
