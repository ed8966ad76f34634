//go:build env

package volumemove

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/test/env"
)

// podWatchTest has watches of Pods that run, with the permissions of the operator. begun receives a value for each
// watch that begins, with its error.
type podWatchTest struct {
	*testing.T
	pods  *podWatches
	begun chan error
	fail  atomic.Bool
	end   func() error
}

func newPodWatchTest(t *testing.T, namespace string) *podWatchTest {
	t.Helper()
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := &podWatchTest{T: t, begun: make(chan error, 10)}
	p.pods = newPodWatches(interceptor.NewClient(c, interceptor.Funcs{Watch: func(ctx context.Context,
		c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		if p.fail.Load() {
			p.begun <- errors.New("fails")
			return nil, errors.New("unavailable")
		}
		w, err := c.Watch(ctx, list, options...)
		p.begun <- err
		return w, err
	}}), func(client.ObjectKey, string) {})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p.pods.permit(ctx) // as Start does, which may run only later
	go func() { ended <- p.pods.Start(ctx) }()
	p.end = func() error { cancel(); return <-ended }
	p.must(server.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	return p
}

func (p *podWatchTest) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// pod creates a Pod, and returns the version of a list that has it.
func (p *podWatchTest) pod(namespace, name string) (*corev1.Pod, string) {
	p.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	p.must(server.Client.Create(p.Context(), pod))
	list := &corev1.PodList{}
	p.must(server.Client.List(p.Context(), list, client.InNamespace(namespace)))
	return pod, list.ResourceVersion
}

func (p *podWatchTest) count() int {
	p.pods.mu.Lock()
	defer p.pods.mu.Unlock()
	return len(p.pods.watched)
}

// TestTheEndOfAPodIsReported at once: also if it ended between the list and the watch, and if it is complete but still
// exists. Other Pods, and changes of the Pod, are not reported.
func TestTheEndOfAPodIsReported(t *testing.T) {
	const namespace = "pod-ends"
	p := newPodWatchTest(t, namespace)
	other, _ := p.pod(namespace, "other")
	for name, test := range map[string]struct {
		before bool
		end    func(pod *corev1.Pod) error
	}{
		"deleted": {end: func(pod *corev1.Pod) error {
			return server.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))
		}},
		"deleted-before": {before: true, end: func(pod *corev1.Pod) error {
			return server.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))
		}},
		"complete": {end: func(pod *corev1.Pod) error {
			pod.Status.Phase = corev1.PodSucceeded
			return server.Client.Status().Update(t.Context(), pod)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			move := client.ObjectKey{Namespace: env.Namespace, Name: name}
			pod, version := p.pod(namespace, name)
			if test.before {
				p.must(test.end(pod))
			}
			for range 2 { // A second call does not begin a second watch.
				if !p.pods.follow(move, client.ObjectKeyFromObject(pod), version) && !test.before {
					t.Error("the Pod is not watched")
				}
			}
			p.must(<-p.begun)
			other.Labels = map[string]string{"changed": name}
			p.must(server.Client.Update(t.Context(), other))
			if !test.before {
				pod.Labels = map[string]string{"changed": "yes"}
				p.must(server.Client.Update(t.Context(), pod))
				p.must(test.end(pod))
			}
			if got := client.ObjectKeyFromObject((<-p.pods.ended).Object); got != move {
				t.Errorf("%s is reported, want %s", got, move)
			}
			if len(p.begun) > 0 || p.count() > 0 {
				t.Errorf("%d more watches began, and %d are left", len(p.begun), p.count())
			}
		})
	}
	p.must(p.end())
}

// TestAWatchThatFailsReportsNothing: the next poll begins another one. None is left when the operator ends, and none
// begins after that.
func TestAWatchThatFailsReportsNothing(t *testing.T) {
	const namespace = "pod-watch-fails"
	p := newPodWatchTest(t, namespace)
	move := client.ObjectKey{Namespace: env.Namespace, Name: "m"}
	pod, version := p.pod(namespace, "pod")
	p.fail.Store(true)
	p.pods.follow(move, client.ObjectKeyFromObject(pod), version)
	if err := <-p.begun; err == nil {
		t.Fatal("the watch has not failed")
	}
	p.fail.Store(false)
	for len(p.begun) == 0 {
		p.pods.follow(move, client.ObjectKeyFromObject(pod), version)
	}
	p.must(<-p.begun)
	p.must(p.end())
	if len(p.pods.ended) > 0 || p.count() > 0 {
		t.Errorf("%d Pods are reported as ended, and %d watches are left", len(p.pods.ended), p.count())
	}
	p.pods.follow(move, client.ObjectKeyFromObject(pod), version)
	if p.count() > 0 {
		t.Error("a watch began after the end")
	}
}

// TestPodWatchesAreLimited: the moves above the limit are polled.
func TestPodWatchesAreLimited(t *testing.T) {
	const namespace = "pod-watch-limit"
	p := newPodWatchTest(t, namespace)
	for i := range maxPodWatches {
		p.pods.watched[client.ObjectKey{Name: fmt.Sprint(i)}] = true
	}
	pod, version := p.pod(namespace, "pod")
	if p.pods.follow(client.ObjectKey{Name: "one more"}, client.ObjectKeyFromObject(pod), version) {
		t.Error("one more Pod is watched")
	}
	if p.count() != maxPodWatches {
		t.Errorf("%d watches", p.count())
	}
	p.must(p.end())
}
