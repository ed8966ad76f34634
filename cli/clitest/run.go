package clitest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

// Update is true if golden files are written, and the page of docs/reference.
var Update = flag.Bool("update", false, "write the golden files, and the page of docs/reference")

// Plugin is the plugin with some of its commands.
type Plugin func(*session.Environment) []*cobra.Command

// Result is what a command printed, with its exit code.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command with a client.
func (p Plugin) Run(t *testing.T, c client.Client, args ...string) Result {
	t.Helper()
	return p.RunWith(t, c, "", nil, args...)
}

// RunWith runs a command with a client. If input is not empty, it is what a person types. Each time that the command
// waits, the next step is called, which does what the cluster would do; the last one is repeated.
func (p Plugin) RunWith(t *testing.T, c client.Client, input string, steps []func(), args ...string) Result {
	t.Helper()
	e := session.Environment{Flags: genericclioptions.NewConfigFlags(true), Now: func() time.Time { return Now },
		Connect:    func() (client.Client, error) { return c, nil },
		IsTerminal: func(io.Reader) bool { return input != "" },
		Pause: func(ctx context.Context, _ time.Duration) error {
			if len(steps) > 0 {
				steps[0]()
			}
			if len(steps) > 1 {
				steps = steps[1:]
			}
			return ctx.Err()
		}}
	root := e.Root()
	root.AddCommand(p(&e)...)
	ctx, cancel := context.WithTimeout(t.Context(), limit.Hang) // a command that waits for too long fails
	defer cancel()
	var out, errOut bytes.Buffer
	code := session.Execute(ctx, root, args, strings.NewReader(input), &out, &errOut)
	return Result{Code: code, Out: out.String(), Err: errOut.String()}
}

// Prints checks the exit code of a command, and parts of its output.
func Prints(t *testing.T, got Result, code int, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got.Out+got.Err, text) {
			t.Errorf("%q is missing", text)
		}
	}
	if got.Code != code || t.Failed() {
		t.Errorf("exit code %d\n%s%s", got.Code, got.Out, got.Err)
	}
}

// Lines returns the lines of a table without headers, each with one space between cells.
func Lines(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		found = append(found, output.OneLine(line))
	}
	return found
}

// Golden compares text with a file in testdata.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *Update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// FakeReader returns a client with objects. If fail returns an error for a list, the list fails with it.
func FakeReader(fail func(client.ObjectList, client.ListOptions) error, objects ...client.Object) client.Client {
	builder := fake.NewClientBuilder().WithScheme(session.Scheme).WithObjects(objects...)
	return builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			o := client.ListOptions{}
			o.ApplyOptions(options)
			if fail != nil {
				if err := fail(list, o); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
}

// ResourceOf returns the resource of a list.
func ResourceOf(list client.ObjectList) schema.GroupResource {
	kind := fmt.Sprintf("%T", list)
	for part, resource := range map[string]string{"LVMClusterList": session.ClustersResource,
		"LVMVolumeGroupNodeStatusList": session.NodeStatusesResource, "LVMRecoveryList": session.RecoveriesResource,
		"LogicalVolumeList": session.VolumesResource} {
		if strings.HasSuffix(kind, "."+part) {
			return schema.ParseGroupResource(resource)
		}
	}
	panic(kind)
}

// Failing returns a function for FakeReader that fails for a resource.
func Failing(resource string, err error) func(client.ObjectList, client.ListOptions) error {
	return func(list client.ObjectList, _ client.ListOptions) error {
		if got := ResourceOf(list); resource == "" || got.String() == resource {
			return err
		}
		return nil
	}
}
