// Package scrape is how metrics are served: with which certificate, and to whom.
package scrape
