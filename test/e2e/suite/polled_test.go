package suite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
)

// poll calls test like a spec, but in simulated time, and returns its failures and the files in which they happened.
func poll(t *testing.T, test func(context.Context)) (failures []string) {
	synctest.Test(t, func(t *testing.T) {
		setUpGomega(func(message string, skip ...int) {
			_, file, _, _ := runtime.Caller(skip[0] + 1)
			failures = append(failures, filepath.Base(file)+": "+message)
		})
		test(t.Context())
	})
	return failures
}

var errRefused = errors.New("connection refused")

// read fails until it was called for the given time, like Cluster.Run does.
func read(calls *int, from, to int) string {
	*calls++
	if *calls >= from && *calls < to {
		gomega.Expect(errRefused).NotTo(gomega.HaveOccurred())
	}
	return "value"
}

func TestAFailedReadInAPolledFunctionIsRepeated(t *testing.T) {
	for name, test := range map[string]func(calls *int) any{
		"a function": func(calls *int) any { return func() string { return read(calls, 1, 3) } },
		"a function with context": func(calls *int) any {
			return func(context.Context) string { return read(calls, 1, 3) }
		},
		"a function with arguments": func(calls *int) any {
			return func(context.Context, ...string) string { return read(calls, 1, 3) }
		},
		"a function with an error": func(calls *int) any {
			return func() (string, error) { return read(calls, 1, 3), nil }
		},
		"a function with Gomega": func(calls *int) any {
			return func(g gomega.Gomega) string {
				value := read(calls, 1, 3)
				g.Expect(value).To(gomega.Equal("value"))
				return value
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls int
			failures := poll(t, func(ctx context.Context) {
				gomega.Eventually(test(&calls)).WithContext(ctx).WithTimeout(time.Minute).Should(gomega.Equal("value"))
			})
			if len(failures) > 0 || calls != 3 {
				t.Errorf("after Eventually: %d calls, failures %q", calls, failures)
			}
			calls = 0
			failures = poll(t, func(ctx context.Context) {
				gomega.Consistently(test(&calls)).WithContext(ctx).WithTimeout(time.Minute).Should(
					gomega.Equal("value"))
			})
			if len(failures) > 0 || calls < 4 {
				t.Errorf("after Consistently: %d calls, failures %q", calls, failures)
			}
		})
	}
}

func TestAReadThatAlwaysFailsIsNamed(t *testing.T) {
	// It names the line of the poll, and that of the read.
	reported := regexp.MustCompile(`(?s)^polled_test\.go: .*polled_test\.go:\d+: .*connection refused`)
	fails := func() string { gomega.Expect(errRefused).NotTo(gomega.HaveOccurred()); return "" }
	for name, failures := range map[string][]string{
		"Eventually": poll(t, func(context.Context) {
			gomega.Eventually(fails).WithTimeout(time.Minute).Should(gomega.BeEmpty())
		}),
		"Consistently": poll(t, func(context.Context) {
			gomega.Consistently(fails).WithTimeout(time.Minute).Should(gomega.BeEmpty())
		}),
	} {
		if len(failures) != 1 || !reported.MatchString(failures[0]) {
			t.Errorf("%s has failed with %q", name, failures)
		}
	}
}

func TestAConditionThatDoesNotHoldFails(t *testing.T) {
	var calls int
	for name, failures := range map[string][]string{
		"Consistently": poll(t, func(context.Context) {
			gomega.Consistently(func() int { calls++; return calls }).WithTimeout(time.Minute).Should(
				gomega.BeNumerically("<", 9))
		}),
		"Consistently with Gomega": poll(t, func(context.Context) {
			gomega.Consistently(func(g gomega.Gomega) { g.Expect("a").To(gomega.Equal("b")) }).Should(gomega.Succeed())
		}),
		"Eventually": poll(t, func(context.Context) {
			gomega.Eventually(func() error { return errors.New("never") }).WithTimeout(time.Minute).Should(
				gomega.Succeed())
		}),
		"Eventually that stops": poll(t, func(context.Context) {
			gomega.Eventually(func() string { gomega.StopTrying("no").Now(); return "" }).WithTimeout(time.Hour).Should(
				gomega.Equal(""))
		}),
	} {
		if len(failures) != 1 {
			t.Errorf("%s has failed with %q", name, failures)
		}
	}
	if calls != 9 {
		t.Errorf("Consistently called the function %d times", calls)
	}
}

// TestEachSuitePollsLikeTheOthers fails for a package that sets up gomega or runs specs without Run.
func TestEachSuitePollsLikeTheOthers(t *testing.T) {
	own := regexp.MustCompile(`\b(RunSpecs|RegisterFailHandler|RegisterTestingT|NewGomega|NewWithT)\(`)
	folder := os.DirFS("..")
	err := fs.WalkDir(folder, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "suite/") {
			return err
		}
		code, err := fs.ReadFile(folder, path)
		if found := own.Find(code); found != nil {
			t.Errorf("%s calls %s instead of suite.Run", path, found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
