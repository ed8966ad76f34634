// Package lab runs real clusters for tests, on one small Linux machine without a container engine, virtualization or
// device-mapper. Every node is a User Mode Linux kernel with real LVM, udev, containerd and kubelet, and with disks
// that can be added, pulled, grown and failed while it runs.
//
// A lab is one process, its supervisor, and everything that ends with it: the supervisor is the first process of its
// own PID, network and mount namespaces. Nothing therefore remains after [Lab.Down] or after a crash, and labs are
// isolated from each other and from the network of this machine.
//
// It needs root, Linux on amd64, and some Debian packages: see [Doctor]. The programs of Kubernetes are built once,
// from source, and cached: see [Programs].
package lab
