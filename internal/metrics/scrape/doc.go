// Package scrape serves metrics, and decides which clients may read them.
package scrape
