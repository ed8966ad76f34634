// Package olm sets whether the Operator Lifecycle Manager may upgrade the operator.
package olm

import (
	"context"
	"fmt"
	"os"
	"strings"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lib/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// conditionVariable is an environment variable of `lvms operator`: the name of its OperatorCondition. The Operator
// Lifecycle Manager sets it and grants the permissions ("Communicating operator conditions"); OLM v1 and an
// installation without it do not.
const conditionVariable = "OPERATOR_CONDITION_NAME"

// conditionUpgradeable is a condition of the OperatorCondition: the Operator Lifecycle Manager may upgrade the
// operator.
const conditionUpgradeable = "Upgradeable"

// Reasons of Upgradeable.
const (
	// reasonReady sets Upgradeable to True: nothing prevents an upgrade.
	reasonReady = "AsExpected"
	// reasonInProgress sets Upgradeable to False: node agents are changing volume groups. The message names them.
	// What to do: wait. The Operator Lifecycle Manager upgrades the operator when this has ended, or after a day.
	reasonInProgress = "StorageIsBeingChanged"
)

// maxMessage is the maximum length of a condition's message, in bytes.
const maxMessage = 1024

// Gate sets the condition Upgradeable.
type Gate struct {
	upgradeable conditions.Condition
	written     string
}

// FromEnvironment returns the gate for the OperatorCondition that OLM names in the environment, or nil if OLM names
// none. The client must read from the API server: OLM grants no permission to list or watch. Its scheme must have
// OperatorCondition.
func FromEnvironment(c client.Client) (*Gate, error) {
	if os.Getenv(conditionVariable) == "" {
		return nil, nil
	}
	upgradeable, err := conditions.InClusterFactory{Client: c}.NewCondition(
		operatorsv2.ConditionType(conditionUpgradeable))
	if err != nil {
		return nil, err
	}
	return NewGate(upgradeable), nil
}

// NewGate returns the gate for a condition.
func NewGate(upgradeable conditions.Condition) *Gate {
	return &Gate{upgradeable: upgradeable}
}

// SetUpgradeable sets the condition to True if there are no obstacles, else to False with the obstacles as message. It
// writes only what differs from its last write, and nothing if there is no OperatorCondition. A nil Gate does nothing.
func (g *Gate) SetUpgradeable(ctx context.Context, obstacles []string) error {
	if g == nil {
		return nil
	}
	status := metav1.ConditionTrue
	reason := reasonReady
	message := "nothing speaks against an upgrade"
	if len(obstacles) > 0 {
		status = metav1.ConditionFalse
		reason = reasonInProgress
		message = shortened(obstacles)
	}
	wanted := string(status) + message
	if wanted == g.written {
		return nil
	}
	err := g.upgradeable.Set(ctx, status, conditions.WithReason(reason), conditions.WithMessage(message))
	if err != nil && !isAbsent(err) {
		return fmt.Errorf("set condition Upgradeable of OperatorCondition %s: %w", os.Getenv(conditionVariable), err)
	}
	g.written = wanted
	return nil
}

// isAbsent reports whether there is no OperatorCondition: some versions of OLM do not have the kind.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// shortened joins as many obstacles as a message can hold, and counts the others.
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
	return fmt.Sprintf("%d volume groups are being changed", len(obstacles))
}
