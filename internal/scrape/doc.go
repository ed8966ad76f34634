// Package scrape is how metrics are served, and to whom.
package scrape
