package view

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// operatorDeployments are the Deployments of the operator and of its standby replicas, which one operator needs.
var operatorDeployments = []string{"lvms-operator", "lvms-operator-standby"}

// operatorState is whether an operator runs in a namespace.
type operatorState struct {
	namespace string
	// installed: the Deployment of the operator exists. available is the number of ready Pods of the operator and its
	// standby replicas.
	installed bool
	available int32
}

// operators reads whether the operators of LVMClusters run.
func operators(ctx context.Context, s *session.Source, clusters []v1alpha1.LVMCluster) ([]operatorState, error) {
	var namespaces []string
	for i := range clusters {
		namespaces = append(namespaces, clusters[i].Namespace)
	}
	slices.Sort(namespaces)
	var states []operatorState
	for _, namespace := range slices.Compact(namespaces) {
		state := operatorState{namespace: namespace}
		for _, name := range operatorDeployments {
			deployment := &appsv1.Deployment{}
			err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, cannotReadOperator(namespace, name, err)
			}
			state.installed = state.installed || name == operatorDeployments[0]
			state.available += deployment.Status.AvailableReplicas
		}
		states = append(states, state)
	}
	return states, nil
}

func cannotReadOperator(namespace, name string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot tell whether the operator runs: you need the permission for the verb get on the "+
			"resource deployments of the API group apps in the namespace %s. Ask an administrator of the cluster for "+
			"it: %w", namespace, err)
	}
	return fmt.Errorf("cannot tell whether the operator runs: read the Deployment %s/%s: %w", namespace, name, err)
}

const operatorConsequence = ": it creates no volume, and the state of the LVMCluster may be outdated."

// operatorProblems returns a problem for each operator that does not run. What it reported earlier may be outdated.
func operatorProblems(operators []operatorState) []output.Problem {
	var problems []output.Problem
	for _, o := range operators {
		object := output.Problem{Object: "Deployment " + o.namespace + "/" + operatorDeployments[0]}
		switch {
		case o.available > 0:
		case o.installed:
			problems = append(problems, newProblem(verdict.OperatorDown,
				"The operator has no Pod that is ready"+operatorConsequence, object))
		default:
			problems = append(problems, newProblem(verdict.OperatorDown,
				"The Deployment of the operator does not exist"+operatorConsequence, object))
		}
	}
	return problems
}
