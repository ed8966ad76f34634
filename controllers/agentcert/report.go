package agentcert

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	lvmsevent "github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// grace is the time that an agent has to request a certificate, and the operator to issue it: an agent of an earlier
// version requests none, and an upgrade replaces one agent after the other, which takes long on many nodes.
const grace = time.Hour

// eventNoCertificate is a Warning event on the LVMVolumeGroupNodeStatus: the node agent has no valid certificate, so
// the operator does not connect to it, and backup software cannot read the changed blocks of snapshots on the node.
// What to do: see the reason in the note. If the agent has requested no certificate, check the Pod vg-manager of the
// node and its log. If the operator has issued none, see its log: the Secret lvms-agent-ca cannot be read or written.
var eventNoCertificate = lvmsevent.Warning("AgentCertificateMissing", "IssueCertificate",
	"the node agent of %s has no valid certificate, so changed blocks of snapshots on the node cannot be read: %s")

// absence is since when an agent was observed without a valid certificate, and the UID of its node status.
type absence struct {
	since time.Time
	uid   types.UID
}

// report emits an event if an agent has had no valid certificate for a while, or at once if its request was refused.
func (c *Controller) report(status *v1alpha1.LVMVolumeGroupNodeStatus, certificate *v1alpha1.AgentCertificate) {
	now := c.now()
	reason := missing(certificate, now)
	if reason == "" {
		delete(c.without, status.Name)
		c.emitter.Clear(status, eventNoCertificate.Reason)
		return
	}
	if c.without[status.Name].uid != status.UID {
		c.without[status.Name] = absence{since: now, uid: status.UID}
	}
	refused := certificate != nil && certificate.Message != ""
	if refused || now.Sub(c.without[status.Name].since) >= grace {
		c.emitter.Emit(status, eventNoCertificate, status.Name, reason)
	}
}

// missing returns why an agent has no valid certificate, or "" if it has one.
func missing(certificate *v1alpha1.AgentCertificate, now time.Time) string {
	switch {
	case certificate == nil || certificate.Request == "":
		return "it has requested none"
	case certificate.Message != "":
		return certificate.Message
	case certificate.Certificate == "":
		return "the operator has issued none"
	}
	parsed, err := pki.ParseCertificate([]byte(certificate.Certificate))
	if err != nil {
		return err.Error()
	}
	if now.After(parsed.NotAfter) {
		return "it has expired at " + parsed.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}
