package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
)

const healthAddress = "127.0.0.1:18081"

// operator is the measured process.
type operator struct {
	command *exec.Cmd
	ended   chan error
	killed  atomic.Bool
}

// installOperator creates the operator's permissions, Deployment and Pod, in which nothing runs.
func (c *cluster) installOperator(ctx context.Context) error {
	roles, err := objects(filepath.Join("config", "rbac", "operator_role.yaml"))
	if err != nil {
		return err
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: operatorUser}}
	for _, role := range roles {
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.GetKind(), Name: role.GetName()}
		meta := metav1.ObjectMeta{Name: role.GetName(), Namespace: role.GetNamespace()}
		var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
		if role.GetNamespace() != "" {
			binding = &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}
		}
		for _, object := range []client.Object{role, binding} {
			if err := c.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	user, err := c.server.AddUser(envtest.User{Name: operatorUser,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}, nil)
	if err != nil {
		return err
	}
	if c.kubeconfig, err = c.writeKubeconfig("operator", user); err != nil {
		return err
	}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vg-manager"}},
		operatorDeployment(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "lvms-operator:scale"}}}},
	} {
		if err := c.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// operatorDeployment returns the owner of what the operator creates. It has no Pods: the operator is a process.
func operatorDeployment() *appsv1.Deployment {
	labels := map[string]string{"app": "lvms-operator"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: installed.Name},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "manager", Image: "lvms-operator:scale"}}}}}}
}

// objects reads a manifest.
func objects(file string) ([]*unstructured.Unstructured, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, object)
	}
}

// registerWebhook creates the configuration that the operator completes. The webhook has no Service through which it
// could be called, so the configuration is only for new LVMClusters, and none is created.
func (c *cluster) registerWebhook(ctx context.Context) error {
	file := filepath.Join("config", "webhook", "manifests.yaml")
	all, err := objects(file)
	if err != nil {
		return err
	}
	for _, object := range all {
		configuration := &admissionv1.ValidatingWebhookConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for i := range configuration.Webhooks {
			for j := range configuration.Webhooks[i].Rules {
				configuration.Webhooks[i].Rules[j].Operations = []admissionv1.OperationType{admissionv1.Create}
			}
		}
		if err := c.Create(ctx, configuration); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// startOperator starts the program like its Deployment.
func (c *cluster) startOperator(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(c.work, "operator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, c.binary, "operator", "--diagnostics-address=127.0.0.1:18443",
		"--webhook-port=19443", "--health-probe-bind-address="+healthAddress, "--standbys=0", "--pprof-port=16060")
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "NAMESPACE="+namespace, "NAME="+podName,
		"GOGC=25", "GOMAXPROCS=2")
	command.Stdout = log
	command.Stderr = log
	// The directory of the operator's CSI socket.
	if err := os.MkdirAll("/run/topolvm", 0o755); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	o := &operator{command: command, ended: make(chan error, 1)}
	go func() {
		err := command.Wait()
		if !o.killed.Load() {
			c.giveUp(fmt.Errorf("the operator has ended, see %s: %w", log.Name(), err))
		}
		o.ended <- err
	}()
	c.operator = o
	return nil
}

func (o *operator) kill() {
	if o.killed.Swap(true) {
		return
	}
	_ = o.command.Process.Signal(syscall.SIGKILL)
	<-o.ended
}

func ready() bool {
	response, err := http.Get("http://" + healthAddress + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// usage is the resource usage of the process: resident memory in bytes, current and peak (proc_pid_status(5)), and CPU
// time (proc_pid_stat(5)).
type usage struct {
	resident, peak int64
	cpu            time.Duration
}

func (o *operator) usage() (usage, error) {
	pid := o.command.Process.Pid
	u := usage{}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			u.resident = kib << 10
		case "VmHWM:":
			u.peak = kib << 10
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	// Skip the name in parentheses. utime and stime are fields 14 and 15, in hundredths of a second.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, errors.New("the operator's /proc/PID/stat cannot be read")
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return u, err
		}
		u.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	return u, nil
}

// calls counts the operator's requests to the API server by verb and kind.
type calls map[string]int

// auditReader reads new lines of the audit log.
type auditReader struct {
	path   string
	offset int64
}

func (a *auditReader) next() (calls, error) {
	file, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	counted := calls{}
	for reader := bufio.NewReaderSize(file, 1<<20); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counted, nil // the rest of the line is not written yet
		}
		if err != nil {
			return nil, err
		}
		a.offset += int64(len(line))
		event := struct {
			Verb, Stage, RequestURI string
			ObjectRef               struct{ Resource, Subresource string }
		}{}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		// Count a watch when it starts, and other requests when they end.
		if watch := event.Verb == "watch"; event.Stage != "ResponseComplete" && !watch ||
			watch && event.Stage != "ResponseStarted" {
			continue
		}
		what := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		if what == "" {
			what, _, _ = strings.Cut(event.RequestURI, "?")
		}
		counted[event.Verb+" "+what]++
	}
}

// writesBut returns the number of writes except those of some kinds. Reviews of permissions are created but not stored.
func (c calls) writesBut(except ...string) int {
	n := 0
	for what, count := range c {
		verb, kind, _ := strings.Cut(what, " ")
		switch verb {
		case "get", "list", "watch":
			continue
		}
		skip := strings.HasSuffix(kind, "reviews")
		for _, e := range except {
			skip = skip || kind == e
		}
		if !skip {
			n += count
		}
	}
	return n
}

func (c calls) total() int {
	n := 0
	for _, count := range c {
		n += count
	}
	return n
}

func (c calls) without(kind string) calls {
	rest := calls{}
	for what, count := range c {
		if _, k, _ := strings.Cut(what, " "); k != kind {
			rest[what] = count
		}
	}
	return rest
}
