package guest

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	divertFile  = "/etc/kubernetes/network-policies.iptables"
	divertLimit = 2 * time.Minute
)

// divertRules send the first packet of each connection from or to a Pod to the queue of kube-network-policies, which
// decides. These are the rules that it creates with nftables itself, in a table that also comes before source NAT:
// nftables in the kernel of User Mode Linux lacks the families inet and ip. If no program serves the queue, the kernel
// drops the packets. Packets of root on the node, such as probes of kubelet, do not go to the queue.
var divertRules = fmt.Sprintf(`*mangle
-A POSTROUTING -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN
-A POSTROUTING -m owner --uid-owner 0 -j RETURN
-A POSTROUTING -s %[1]s -j NFQUEUE --queue-num %[2]d
-A POSTROUTING -d %[1]s -j NFQUEUE --queue-num %[2]d
COMMIT
`, spec.PodCIDR, spec.PolicyQueue)

// divertPackets applies divertRules in a lab that enforces NetworkPolicies.
func (m *machine) divertPackets(ctx context.Context) error {
	if err := m.loadModules("xt_owner", "xt_NFQUEUE", "nfnetlink_queue"); err != nil {
		return err
	}
	if err := writeFile(divertFile, divertRules); err != nil {
		return err
	}
	child, err := m.reaper.Start(exec.Command("iptables-restore", "--noflush", divertFile))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, divertLimit)
	defer cancel()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-child.Done():
	}
	if code := child.ExitCode(); code != 0 {
		return fmt.Errorf("iptables-restore %s ended with %d", divertFile, code)
	}
	return nil
}
