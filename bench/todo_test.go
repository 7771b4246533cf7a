package bench

import "testing"

func gets(t *testing.T, tb *table)   {}
func leases(t *testing.T, tb *table) {}
func scopes(t *testing.T, tb *table) {}
func day(t *testing.T, tb *table)    {}
