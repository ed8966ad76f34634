package installed

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObjects(t *testing.T) {
	operator := deployment(map[string]string{"app.kubernetes.io/name": Name, "olm.owner": "x"})
	operator.UID = "uid"
	objects, err := Objects([]byte("{kind: A, metadata: {name: a, namespace: other}}\n---\n{kind: B, metadata: {name: b}}\n"),
		operator)
	if err != nil || len(objects) != 2 {
		t.Fatalf("got %d objects, %v", len(objects), err)
	}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: Name, UID: "uid"}
	for i, kind := range []string{"A", "B"} {
		object := objects[i]
		if object.GetKind() != kind || object.GetNamespace() != operator.Namespace {
			t.Errorf("got %s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		}
		if labels := object.GetLabels(); len(labels) != 1 || labels["app.kubernetes.io/name"] != Name {
			t.Errorf("labels %v", labels)
		}
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0] != owner {
			t.Errorf("owners %v", owners)
		}
	}
	if _, err := Objects([]byte("{kind: A}\n---\n{"), operator); err == nil || !strings.Contains(err.Error(), "object 2") {
		t.Errorf("a broken manifest: %v", err)
	}
}
