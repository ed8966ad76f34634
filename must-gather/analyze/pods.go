package analyze

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// manyRestarts is the number of restarts of a ready container from which there is a finding.
const manyRestarts = 3

// crashLoops finds containers of the product that restart repeatedly or do not start.
func crashLoops(f *Facts) []Finding {
	var found []Finding
	for _, pod := range slices.Concat(podsOf(f, operatorName), podsOf(f, agentName)) {
		// Problems on a node that is not ready are a consequence.
		if notReady(f, pod.Spec.NodeName) != nil {
			continue
		}
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if finding := containerTrouble(f, pod, s); finding != nil {
				found = append(found, *finding)
			}
		}
	}
	return found
}

func containerTrouble(f *Facts, pod corev1.Pod, s corev1.ContainerStatus) *Finding {
	what := fmt.Sprintf("container %s of pod %s/%s on node %s", s.Name, pod.Namespace, pod.Name, pod.Spec.NodeName)
	ended := ""
	if t := cmp.Or(s.LastTerminationState.Terminated, s.State.Terminated); t != nil {
		ended = fmt.Sprintf("; it ended with %d (%s) at %s: %s", t.ExitCode, t.Reason, at(t.FinishedAt.Time),
			lastLine(t.Message))
	}
	do := fmt.Sprintf("see namespaces/%s/pods/%s/%s/%s/logs", pod.Namespace, pod.Name, s.Name, s.Name)
	runbook := "LVMSAgentDown"
	if pod.Labels[nameLabel] == operatorName {
		runbook = "LVMSOperatorDown"
	}
	w := s.State.Waiting
	switch {
	case w != nil && w.Reason == "CrashLoopBackOff", s.RestartCount >= restarts(s) && recently(f, s):
		return &Finding{Severity: verdict.Critical, Runbook: runbook,
			Text: fmt.Sprintf("%s was restarted %d times%s", what, s.RestartCount, ended), Do: do}
	case w != nil && (strings.Contains(w.Reason, "Err") || strings.Contains(w.Reason, "BackOff") ||
		strings.Contains(w.Reason, "Invalid")):
		return &Finding{Severity: verdict.Critical, Runbook: runbook,
			Text: fmt.Sprintf("%s does not start: %s: %s", what, w.Reason, w.Message)}
	}
	return nil
}

// restarts is the number of restarts of a container from which there is a finding. A container in a crash loop runs for
// a moment between two restarts, and is not ready then.
func restarts(s corev1.ContainerStatus) int32 {
	if s.Ready {
		return manyRestarts
	}
	return 1
}

// recently reports whether a container ended within the last hour.
func recently(f *Facts, s corev1.ContainerStatus) bool {
	t := s.LastTerminationState.Terminated
	return t != nil && f.Now.Sub(t.FinishedAt.Time) < time.Hour
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// agentsMissing finds node agents that are not ready, except on nodes that are not ready.
func agentsMissing(f *Facts) []Finding {
	var found []Finding
	for i := range f.DaemonSets {
		d := &f.DaemonSets[i]
		if d.Name != agentName {
			continue
		}
		away := 0
		for _, node := range sets.List(storageNodes(f)) {
			if notReady(f, node) != nil {
				away++
			}
		}
		if lacking := int(d.Status.DesiredNumberScheduled-d.Status.NumberReady) - away; lacking > 0 {
			found = append(found, Finding{Severity: verdict.Warning, Runbook: "LVMSAgentDown",
				Text: fmt.Sprintf("%d of %d agents (DaemonSet %s/%s) are not ready: %s",
					d.Status.DesiredNumberScheduled-d.Status.NumberReady, d.Status.DesiredNumberScheduled, d.Namespace,
					d.Name, some(unready(f), 8)),
				Do: "mounted volumes are not affected; on these nodes, volumes cannot be mounted, created or " +
					"expanded"})
		}
		if d.Status.DesiredNumberScheduled == 0 && len(f.NodeStatuses) > 0 {
			found = append(found, Finding{Severity: verdict.Warning, Runbook: "LVMSAgentDown",
				Text: fmt.Sprintf("no node can run a node agent (DaemonSet %s/%s): its node selector matches no "+
					"node",
					d.Namespace, d.Name)})
		}
	}
	return found
}

func unready(f *Facts) []string {
	var names []string
	for _, pod := range podsOf(f, agentName) {
		ready := slices.ContainsFunc(pod.Status.Conditions,
			func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready {
			names = append(names, fmt.Sprintf("%s on node %s (%s)", pod.Name, pod.Spec.NodeName, pod.Status.Phase))
		}
	}
	return names
}

// webhookCertificates finds webhook certificates that the API server does not trust.
func webhookCertificates(f *Facts) []Finding {
	var found []Finding
	for i := range f.Webhooks {
		for _, hook := range f.Webhooks[i].Webhooks {
			if err := trusted(f, &hook); err != nil {
				found = append(found, Finding{Severity: verdict.Critical, Runbook: "LVMSCertificateExpiring",
					Text: fmt.Sprintf("webhook certificate: ValidatingWebhookConfiguration %s: %v: the API server "+
						"rejects every change to an LVMCluster", f.Webhooks[i].Name, err),
					Do: "to issue a new certificate, delete Secret " + webhookSecret +
						" in its namespace; then see the log of the operator"})
			}
		}
	}
	return found
}

const webhookSecret = "lvms-operator-webhook-server-cert"

func trusted(f *Facts, hook *admissionv1.ValidatingWebhook) error {
	service := hook.ClientConfig.Service
	if service == nil {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(hook.ClientConfig.CABundle) {
		return errors.New("its caBundle contains no certificate")
	}
	content := certificateIn(f, service.Namespace, webhookSecret)
	if content == nil {
		return nil // The Secret may have a different name: with OLM it does.
	}
	leaf, err := parse(content)
	if err != nil {
		return fmt.Errorf("the certificate in Secret %s/%s cannot be read: %w", service.Namespace, webhookSecret, err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: service.Name + "." + service.Namespace + ".svc",
		CurrentTime: f.Now})
	if err != nil {
		return fmt.Errorf("the certificate in Secret %s/%s was not issued by an authority in the caBundle: %w",
			service.Namespace, webhookSecret, err)
	}
	return nil
}

func certificateIn(f *Facts, namespace, name string) []byte {
	for i := range f.Secrets {
		if f.Secrets[i].Namespace == namespace && f.Secrets[i].Name == name {
			return f.Secrets[i].Data["tls.crt"]
		}
	}
	return nil
}

func parse(content []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// soon is the remaining lifetime at which a certificate should already have been renewed.
const soon = 14 * 24 * time.Hour

// certificates finds certificates that are expired or will expire soon.
func certificates(f *Facts) []Finding {
	var found []Finding
	for i := range f.Secrets {
		s := &f.Secrets[i]
		content := s.Data["tls.crt"]
		if s.Type != corev1.SecretTypeTLS || len(content) == 0 {
			continue
		}
		leaf, err := parse(content)
		what := fmt.Sprintf("the certificate in Secret %s/%s", s.Namespace, s.Name)
		switch {
		case err != nil:
			found = append(found, Finding{Severity: verdict.Warning,
				Text: fmt.Sprintf("%s cannot be read: %v", what, err)})
		case f.Now.After(leaf.NotAfter):
			found = append(found, Finding{Severity: verdict.Critical, Runbook: "LVMSCertificateExpiring",
				Text: fmt.Sprintf("%s expired at %s", what, at(leaf.NotAfter))})
		case leaf.NotAfter.Sub(f.Now) < soon:
			found = append(found, Finding{Severity: verdict.Warning, Runbook: "LVMSCertificateExpiring",
				Text: fmt.Sprintf("%s expires at %s, and was not renewed", what, at(leaf.NotAfter))})
		}
	}
	return found
}

// versionSkew finds agents with a different image than the operator's.
func versionSkew(f *Facts) []Finding {
	wanted := map[string]string{}
	for i := range f.Deployments {
		if d := &f.Deployments[i]; d.Name == operatorName && len(d.Spec.Template.Spec.Containers) > 0 {
			wanted[d.Namespace] = d.Spec.Template.Spec.Containers[0].Image
		}
	}
	others := map[string][]string{}
	for _, pod := range podsOf(f, agentName) {
		image := wanted[pod.Namespace]
		if len(pod.Spec.Containers) > 0 && image != "" && pod.Spec.Containers[0].Image != image {
			others[pod.Spec.Containers[0].Image] = append(others[pod.Spec.Containers[0].Image], pod.Spec.NodeName)
		}
	}
	var found []Finding
	for _, image := range sets.List(sets.KeySet(others)) {
		slices.Sort(others[image])
		found = append(found, Finding{Severity: verdict.Warning,
			Text: fmt.Sprintf("%d node agents run image %s instead of the image of the operator: nodes %s",
				len(others[image]), image,
				some(others[image], 8)),
			Do: "an update is in progress or blocked: see the DaemonSet " + agentName})
	}
	return found
}
