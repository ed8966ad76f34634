package env

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
)

// OperatorSpy returns a Spy with exactly the permissions of an operator in the namespace.
func (e *Env) OperatorSpy(t testing.TB, namespace string) *Spy {
	t.Helper()
	config, err := e.AsOperator(namespace)
	if err != nil {
		t.Fatal(err)
	}
	spy, err := NewSpy(config)
	if err != nil {
		t.Fatal(err)
	}
	return spy
}

// OperatorDeployment returns the Deployment of an operator in the namespace.
func OperatorDeployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": installed.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: installed.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "operator"}}}},
		},
	}
}
