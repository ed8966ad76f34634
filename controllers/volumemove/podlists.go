package volumemove

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

const (
	// shareFor is how long the moves of a namespace share a list of its Pods.
	shareFor = 3 * time.Second
	// keepLists is after which time a list is forgotten that no move has read again.
	keepLists = time.Minute
)

// podLists shares lists of Pods among the moves of a namespace: each of them would otherwise list all Pods of the
// namespace in each step. A move that acts on the absence of Pods reads its own list. It is safe for concurrent use.
type podLists struct {
	live client.Reader
	now  func() time.Time

	mu sync.Mutex
	// lists are by namespace. Each has at most one reader at a time, except those that need a new list.
	lists map[string]*podList
}

// podList has the Pods of a namespace that are bound to a node, have not ended and have volumes of claims.
type podList struct {
	reading sync.Mutex
	// begun is the time before the list was read. A Pod has ended at the time ended: the list must be newer.
	begun, ended time.Time
	version      string
	pods         []corev1.Pod
}

// get returns the Pods of a namespace and the resource version of the list. The list is new, or at most shareFor old.
func (p *podLists) get(ctx context.Context, namespace string, isNew bool) ([]corev1.Pod, string, error) {
	if isNew {
		list, err := p.read(ctx, namespace)
		return list.pods, list.version, err
	}
	shared := p.of(namespace)
	shared.reading.Lock()
	defer shared.reading.Unlock()
	p.mu.Lock()
	pods, version, age := shared.pods, shared.version, p.now().Sub(shared.begun)
	isValid := shared.begun.After(shared.ended)
	p.mu.Unlock()
	if isValid && age >= 0 && age < shareFor {
		return pods, version, nil
	}
	list, err := p.read(ctx, namespace)
	return list.pods, list.version, err
}

// of returns the list of a namespace, which may not be valid. It forgets lists that are old.
func (p *podLists) of(namespace string) *podList {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, list := range p.lists {
		if name != namespace && p.now().Sub(list.begun) > keepLists {
			delete(p.lists, name)
		}
	}
	if p.lists[namespace] == nil {
		p.lists[namespace] = &podList{}
	}
	return p.lists[namespace]
}

// read reads a new list, and shares it unless a later one was read meanwhile.
func (p *podLists) read(ctx context.Context, namespace string) (*podList, error) {
	list := &podList{begun: p.now()}
	err := paging.Each(ctx, p.live, &corev1.PodList{}, func(page *corev1.PodList) {
		list.version = page.ResourceVersion // It is the same for all pages.
		for i := range page.Items {
			if pod := &page.Items[i]; pod.Spec.NodeName != "" && relocate.Runs(pod) {
				list.pods = append(list.pods, relevant(pod))
			}
		}
	}, client.InNamespace(namespace))
	if err != nil {
		return list, fmt.Errorf("list the Pods of namespace %s: %w", namespace, err)
	}
	shared := p.of(namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	if list.begun.After(shared.begun) {
		shared.begun, shared.version, shared.pods = list.begun, list.version, list.pods
	}
	return list, nil
}

// relevant returns what a move needs of a Pod.
func relevant(pod *corev1.Pod) corev1.Pod {
	small := corev1.Pod{Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	small.Namespace = pod.Namespace
	small.Name = pod.Name
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			small.Spec.Volumes = append(small.Spec.Volumes, volume)
		}
	}
	return small
}

// invalidate has the next move read a new list of a namespace, because a Pod has ended.
func (p *podLists) invalidate(namespace string) {
	shared := p.of(namespace)
	p.mu.Lock()
	defer p.mu.Unlock()
	shared.ended = p.now()
}
