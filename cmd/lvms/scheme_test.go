package main

import (
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// TestTheSchemeHasTheKindsOfOpenShift that the operator reads with their types.
func TestTheSchemeHasTheKindsOfOpenShift(t *testing.T) {
	for _, object := range []client.Object{&configv1.ClusterVersion{}, &consolev1.ConsolePlugin{}} {
		if _, err := apiutil.GVKForObject(object, scheme); err != nil {
			t.Error(err)
		}
	}
}
