package paging

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pages simulates an API server with pages of one object each. A page without a name returns an error.
type pages struct {
	client.Reader
	names []string
	asked []string
}

func (p *pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	p.asked = append(p.asked, o.Namespace+o.Continue)
	at := len(p.asked) - 1
	if o.Limit != size || p.names[at] == "" {
		return errors.New("the list has expired")
	}
	found, _ := list.(*corev1.ConfigMapList)
	found.Items = append(found.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: p.names[at]}})
	if at+1 < len(p.names) {
		found.Continue = p.names[at]
	}
	return nil
}

func TestEach(t *testing.T) {
	var seen []string
	collect := func(list *corev1.ConfigMapList) {
		for _, item := range list.Items {
			seen = append(seen, item.Name)
		}
	}
	server := &pages{names: []string{"a", "b", "c"}}
	if err := Each(t.Context(), server, &corev1.ConfigMapList{}, collect, client.InNamespace("ns/")); err != nil ||
		strings.Join(seen, "") != "abc" {
		t.Errorf("got %v, %v", seen, err)
	}
	if got := strings.Join(server.asked, " "); got != "ns/ ns/a ns/b" {
		t.Errorf("asked for %q", got)
	}
	seen = nil
	err := Each(t.Context(), &pages{names: []string{"a", ""}}, &corev1.ConfigMapList{}, collect)
	if err == nil || err.Error() != "list *v1.ConfigMapList: the list has expired" {
		t.Errorf("got %v", err)
	}
}

// TestAnOptionLimitsThePages: large objects are read on smaller pages.
func TestAnOptionLimitsThePages(t *testing.T) {
	server := &limited{}
	err := Each(t.Context(), server, &corev1.ConfigMapList{}, func(*corev1.ConfigMapList) {}, client.Limit(20))
	if err != nil || server.limit != 20 {
		t.Errorf("got pages of %d, %v", server.limit, err)
	}
}

type limited struct {
	client.Reader
	limit int64
}

func (l *limited) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	l.limit = (&client.ListOptions{}).ApplyOptions(options).Limit
	return nil
}
