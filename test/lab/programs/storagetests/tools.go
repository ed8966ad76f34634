//go:build tools

package main

import _ "k8s.io/kubernetes/test/images/agnhost" // the program of the Pods of the tests
