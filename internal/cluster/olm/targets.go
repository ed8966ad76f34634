package olm

import (
	"slices"
	"strings"
)

// TargetsVariable is an environment variable of `lvms operator`: the namespaces that its OperatorGroup selects,
// separated by commas. The Deployment sets it from the annotation `olm.targetNamespaces` of the Pod, which the Operator
// Lifecycle Manager sets. It is empty for all namespaces, and without OLM.
const TargetsVariable = "OLM_TARGET_NAMESPACES"

// OtherTargets returns the namespaces of TargetsVariable if the OperatorGroup selects some and the operator's own is
// not one of them, else "". OLM adds them to the namespaceSelector of the webhook.
func OtherTargets(targets, own string) string {
	if targets == "" || slices.Contains(strings.Split(targets, ","), own) {
		return ""
	}
	return targets
}
