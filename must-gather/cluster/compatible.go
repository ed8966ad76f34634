package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// tables lists files with the output of `oc get` in the directory oc_output, on which analyzers of upstream's archives
// depend. Without such a file for events, they read events from core/events.yaml.
var tables = []struct {
	file, group, resource string
	wide                  bool
}{
	{"lvmcluster", "lvm.topolvm.io", "lvmclusters", false},
	{"lvmvolumegroup", "lvm.topolvm.io", "lvmvolumegroups", false},
	{"lvmvolumegroupnodestatus", "lvm.topolvm.io", "lvmvolumegroupnodestatuses", false},
	{"logicalvolume", "topolvm.io", "logicalvolumes", false},
	{"pods_-owide", "", "pods", true},
}

// compatible writes the directory oc_output of a namespace.
func (c *Collector) compatible(ctx context.Context, namespace string) {
	to := path.Join("namespaces", namespace, "oc_output")
	if r, found := c.find("lvm.topolvm.io", "lvmclusters"); found {
		items, err := c.list(ctx, r, namespace, metav1.ListOptions{}, nil)
		if err == nil {
			objects := []any{}
			for i := range items {
				objects = append(objects, items[i].Object)
			}
			c.write(path.Join(to, "lvmcluster.yaml"),
				map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
		}
	}
	for _, t := range tables {
		r, found := c.find(t.group, t.resource)
		if !found {
			continue
		}
		text, err := c.table(ctx, r, namespace, t.wide)
		if err != nil {
			c.out.Failed("table of "+t.resource, err)
			continue
		}
		_ = c.out.Write(path.Join(to, t.file), []byte(text))
	}
}

// table returns the first page of a list as the API server prints it.
func (c *Collector) table(ctx context.Context, r resource, namespace string, wide bool) (string, error) {
	segments := []string{"/apis", r.Group, r.Version}
	if r.Group == "" {
		segments = []string{"/api", r.Version}
	}
	if r.namespaced {
		segments = append(segments, "namespaces", namespace)
	}
	raw, err := again(ctx, c.backoff, func() ([]byte, error) {
		return c.core.Discovery().RESTClient().Get().AbsPath(append(segments, r.Resource)...).
			Param("limit", fmt.Sprint(pageSize)).Param("includeObject", "None").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	})
	if err != nil {
		return "", err
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		return "", err
	}
	var text strings.Builder
	err = printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(&table, &text)
	return text.String(), err
}
