// Package olm tells the Operator Lifecycle Manager whether it may upgrade the operator now.
package olm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConditionName is the variable of the environment in which OLM names the OperatorCondition of an operator (Operator Lifecycle Manager,
// "Communicating operator conditions"). OLM also gives the rights to it. Where it is not set, nobody asks.
const ConditionName = "OPERATOR_CONDITION_NAME"

var operatorCondition = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v2", Kind: "OperatorCondition"}

// The condition, its reasons, and the limit of its message.
const (
	upgradeable      = "Upgradeable"
	reasonReady      = "AsExpected"
	reasonInProgress = "StorageIsBeingChanged"
	maxMessage       = 1024
)

// Gate keeps the condition Upgradeable.
type Gate struct {
	client client.Client
	key    client.ObjectKey
	said   string
	now    func() time.Time
}

// NewGate returns the gate for an OperatorCondition. The client must not read it from a cache. Without a name there is no gate: nil,
// which can be used as any other.
func NewGate(c client.Client, namespace, name string) *Gate {
	if name == "" {
		return nil
	}
	return &Gate{client: c, key: client.ObjectKey{Namespace: namespace, Name: name}, now: time.Now}
}

// Say opens the gate, or closes it for the obstacles. What was said already is not said again.
func (g *Gate) Say(ctx context.Context, obstacles []string) error {
	if g == nil {
		return nil
	}
	condition := metav1.Condition{Type: upgradeable, Status: metav1.ConditionTrue, Reason: reasonReady, Message: "nothing speaks against an upgrade"}
	if len(obstacles) > 0 {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, reasonInProgress, shortened(obstacles)
	}
	said := string(condition.Status) + condition.Message
	if said == g.said {
		return nil
	}
	if err := g.write(ctx, condition); err != nil {
		return fmt.Errorf("OperatorCondition %s: %w", g.key.Name, err)
	}
	g.said = said
	return nil
}

func (g *Gate) write(ctx context.Context, condition metav1.Condition) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(operatorCondition)
	err := g.client.Get(ctx, g.key, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil // an OLM that has no OperatorConditions
	}
	if err != nil {
		return err
	}
	spec := struct {
		Conditions []metav1.Condition `json:"conditions"`
	}{}
	if present, ok := object.Object["spec"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(present, &spec); err != nil {
			return err
		}
	}
	condition.LastTransitionTime = metav1.NewTime(g.now())
	at := slices.IndexFunc(spec.Conditions, func(c metav1.Condition) bool { return c.Type == upgradeable })
	switch {
	case at < 0:
		spec.Conditions = append(spec.Conditions, condition)
	case spec.Conditions[at].Status == condition.Status:
		condition.LastTransitionTime = spec.Conditions[at].LastTransitionTime
		fallthrough
	default:
		spec.Conditions[at] = condition
	}
	conditions, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
	if err != nil {
		return err
	}
	before := object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, conditions["conditions"], "spec", "conditions"); err != nil {
		return err
	}
	return g.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// shortened names as many obstacles as a message holds, and counts the others.
func shortened(obstacles []string) string {
	for n := len(obstacles); n > 0; n-- {
		text := strings.Join(obstacles[:n], "; ")
		if rest := len(obstacles) - n; rest > 0 {
			text += fmt.Sprintf("; and %d more", rest)
		}
		if len(text) <= maxMessage {
			return text
		}
	}
	return fmt.Sprintf("%d volume groups are being changed or are degraded", len(obstacles))
}
