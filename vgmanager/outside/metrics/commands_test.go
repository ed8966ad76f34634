package metrics

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

func TestCommandsAreCountedWithTheirFailures(t *testing.T) {
	runner := host.NewLocal()
	for _, program := range []string{"/bin/true", "/bin/true", "/bin/false"} {
		_, _ = runner.Run(context.Background(), program)
	}
	if _, err := runner.Run(context.Background(), "/no/such/program"); err == nil {
		t.Error("a program that is not there was started")
	}
	const want = `
# HELP lvms_host_command_failures_total Number of commands that failed or were stopped at their time limit. Some failures are expected: LVM returns an error if an object does not exist.
# TYPE lvms_host_command_failures_total counter
lvms_host_command_failures_total{command="false"} 1
lvms_host_command_failures_total{command="true"} 0
# HELP lvms_host_commands_total Number of commands that the node agent has started on its node.
# TYPE lvms_host_commands_total counter
lvms_host_commands_total{command="false"} 1
lvms_host_commands_total{command="true"} 2
`
	collector := Commands{runner.Started()}
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want), "lvms_host_commands_total",
		"lvms_host_command_failures_total"); err != nil {
		t.Error(err)
	}
	if s := runner.Started().Statistics()["true"]; s.Ended != 2 || s.Took <= 0 {
		t.Errorf("got %+v", s)
	}
	problems, err := testutil.CollectAndLint(collector)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
