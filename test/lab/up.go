package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/xstate"
)

// Up starts a lab and returns when it is ready: nodes answer, and those of a cluster are Ready.
//
// If a detached lab with this name is already running, Up returns it, regardless of its options. It removes the remains
// of a lab that crashed. If something does not start, the error names it and contains the end of its log, and nothing
// is left running.
//
// Up needs root, and the packages that [Doctor] lists. The first lab on a machine builds the programs of Kubernetes,
// which takes minutes; see [Programs].
func Up(ctx context.Context, o Options) (*Lab, error) {
	o, err := o.complete()
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if l, err := Open(o.State); err == nil {
		return reuse(ctx, l, o)
	}
	if err := check(o); err != nil {
		return nil, err
	}
	if err := removeState(o.State); err != nil {
		return nil, err
	}
	l, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("lab %s did not come up: %w", o.Name, err)
	}
	return l, nil
}

// reuse returns a running lab if it is detached and healthy.
func reuse(ctx context.Context, l *Lab, o Options) (*Lab, error) {
	status, err := l.status(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lab %s runs already and does not answer: %w", o.Name, err)
	case l.spec.Owned || !o.Detached:
		return nil, fmt.Errorf("lab %s runs already, in %s", o.Name, o.State)
	case status.Failed != "" || !status.Up:
		return nil, fmt.Errorf("lab %s runs already but is not healthy: %s", o.Name, status.Failed)
	}
	fmt.Fprintf(o.Progress, "lab %s is up already\n", o.Name)
	return l, nil
}

func start(ctx context.Context, o Options) (*Lab, error) {
	begin := time.Now()
	s, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := startSupervisor(s)
	if err != nil {
		return nil, errors.Join(err, removeState(o.State))
	}
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	if err := p.follow(o.Progress, begin); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		return nil, errors.Join(err, keepLogs(o), removeState(o.State))
	}
	l, err := Open(o.State)
	if err != nil {
		return nil, err
	}
	l.owner = p
	go func() { _ = p.cmd.Wait(); close(p.ended) }() // ends with the lab
	fmt.Fprintf(o.Progress, "%6.1fs lab %s is up\n", time.Since(begin).Seconds(), o.Name)
	return l, nil
}

// prepare builds the programs of the lab and returns its specification.
func prepare(ctx context.Context, o Options) (spec.Lab, error) {
	s := spec.Lab{
		Name: o.Name, State: o.State, Binary: filepath.Join(o.State, spec.BinaryFile), MemoryMB: o.MemoryMB,
		MaxRestartPeriod: o.MaxRestartPeriod,
		KubeletDir:       o.KubeletDir,
		VolumeStatistics: o.VolumeStatistics,
		AlphaFeatures:    o.AlphaFeatures,
		Extenders:        o.Extenders,
		Bare:             o.Bare, OpenShift: o.OpenShift, Snapshots: o.Snapshots, OLM: o.OLM, CRDs: o.CRDs,
		Owned:     !o.Detached,
		ServiceCA: o.ServiceCA, PrometheusOperator: o.PrometheusOperator,
		FirstCPU: firstCPU(),
	}
	flavor, err := FindFlavor(o.Flavor)
	if err != nil {
		return s, err
	}
	for i := 1; i <= o.Nodes; i++ {
		n := spec.Node{Name: fmt.Sprintf("node%d", i), Num: i}
		for _, d := range flavor.allDisks(o.Disks) {
			n.Disks = append(n.Disks, spec.Disk{Name: d.Name, Kind: string(d.Kind), Size: d.Size})
		}
		s.Nodes = append(s.Nodes, n)
	}
	binary, err := labBinary(ctx)
	if err != nil {
		return s, err
	}
	if !o.Bare {
		if s.Path, err = clusterPrograms(ctx, o); err != nil {
			return s, err
		}
		crds, err := addonCRDs(ctx, o)
		if err != nil {
			return s, err
		}
		s.CRDs = append(crds, s.CRDs...)
		if s.NetworkPolicies, err = networkPolicyManifest(ctx, o); err != nil {
			return s, err
		}
		if s.OLMv1, err = olmV1Manifest(ctx, o); err != nil {
			return s, err
		}
	}
	if err := os.MkdirAll(o.State, 0o700); err != nil {
		return s, err
	}
	if !o.Bare {
		if s.Busybox, err = busyboxApplets(ctx); err != nil {
			return s, err
		}
	}
	if err := copyFile(binary, s.Binary); err != nil {
		return s, err
	}
	if s.Flavor, s.Kernel, err = flavor.prepare(ctx, o, s.Path); err != nil {
		return s, err
	}
	if flavor.ownKernel {
		if s.Preload, err = preload(ctx, o); err != nil {
			return s, err
		}
	}
	return s, spec.Save(filepath.Join(o.State, spec.File), s)
}

// preload copies the library that User Mode Linux needs on this machine, if any, to the state directory, whose path
// contains no separator of LD_PRELOAD.
func preload(ctx context.Context, o Options) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	library, err := xstate.Preload(ctx, filepath.Join(cache, "lab"))
	if err != nil || library == "" {
		return "", err
	}
	file := filepath.Join(o.State, spec.PreloadFile)
	return file, copyFile(library, file)
}

// supervisorProcess is the process of the lab, for its parent.
type supervisorProcess struct {
	cmd      *exec.Cmd
	progress *os.File
	// life is the other end of the supervisor's standard input. When it is closed, by this process or by the kernel
	// when this process ends, the lab ends.
	life  *os.File
	ended chan struct{}
}

func startSupervisor(s spec.Lab) (*supervisorProcess, error) {
	log, err := os.Create(filepath.Join(s.State, "supervisor.log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	lock, err := lockState(s.State)
	if err != nil {
		return nil, err
	}
	defer func() { _ = lock.Close() }() // the supervisor holds it from now on
	progress, progressEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = progressEnd.Close() }()
	p := &supervisorProcess{progress: progress, ended: make(chan struct{})}
	p.cmd = exec.Command(s.Binary, "supervise", s.State)
	p.cmd.Dir = s.State
	p.cmd.Stdout = log
	p.cmd.Stderr = log
	p.cmd.ExtraFiles = []*os.File{progressEnd, lock}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWNS}
	if s.Owned {
		input, life, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer func() { _ = input.Close() }()
		p.cmd.Stdin = input
		p.life = life
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	return p, os.WriteFile(filepath.Join(s.State, spec.PidFile), fmt.Appendf(nil, "%d\n", p.cmd.Process.Pid), 0o600)
}

// follow prints the steps until the lab is ready or has failed.
func (p *supervisorProcess) follow(w io.Writer, begin time.Time) error {
	defer func() { _ = p.progress.Close() }()
	lines := bufio.NewScanner(p.progress)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var step spec.Step
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return err
		}
		switch {
		case step.Done:
			return nil
		case step.Error != "":
			return errors.New(step.Error)
		}
		fmt.Fprintf(w, "%6.1fs %s (%.1fs)\n", time.Since(begin).Seconds(), step.Text, step.Seconds)
	}
	return errors.New("the supervisor ended")
}
