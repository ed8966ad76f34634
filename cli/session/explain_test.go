package session_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestARefusalOfAdmissionIsNoMissingPermission(t *testing.T) {
	for text, isPermission := range map[string]bool{
		`admission webhook "vlvmcluster.kb.io" denied the request: paths: /dev/sdb is used twice`:          false,
		"ValidatingAdmissionPolicy 'p' with binding 'p' denied request: only in the operator's namespace":  false,
		`User "jane" cannot patch resource "lvmclusters" in API group "lvm.topolvm.io" in the namespace x`: true,
	} {
		status := apierrors.NewForbidden(schema.ParseGroupResource(session.ClustersResource), "lvmcluster", errors.New(text))
		err := session.ExplainWrite(status, "patch", session.ClustersResource, "LVMCluster storage/lvmcluster")
		if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "you need the permission") != isPermission {
			t.Errorf("got %v", err)
		}
	}
}
