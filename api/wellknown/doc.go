// Package wellknown has the names that the product writes to Kubernetes and to LVM, or reads from them: names of the
// driver, parameters, labels, annotations, finalizers and LVM tags. Existing clusters have them, so they never change.
// The package imports only the standard library, so that every package can import it.
package wellknown
