// Package docs has the pages for people. Its tests hold them to what is: every link
// between them leads somewhere, what the quick start has pasted is run on real servers,
// and what the migration guides show of leasesvc's files is read as those are.
package docs
