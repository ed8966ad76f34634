// Package lab runs real clusters for tests, on one small Linux machine without a container engine, virtualisation or
// device-mapper: every node is a User Mode Linux kernel with real LVM, udev, containerd and kubelet, and with disks
// that can be added, pulled, grown and failed while it runs.
//
// A lab is one process, its supervisor, and everything that dies with it: the supervisor is the first process of its
// own PID, network and mount namespaces. So nothing is left behind after [Lab.Down] or after a crash, and labs do not
// see each other or anything outside of this machine.
//
// It needs root, Linux on amd64, and some Debian packages: see [Doctor]. The programs of Kubernetes are built once,
// from source, and cached: see [Programs].
package lab
