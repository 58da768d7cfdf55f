package main

import (
	"go/parser"
	"go/token"
	"testing"
)

func TestStatements(t *testing.T) {
	const text = `package p

import "fmt"

func f(n int) {
	if n > 1 {
		fmt.Println(n)
	} else {
		return
	}
	switch n {
	case 1, 2:
		n++
	}
}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The import, the function, if, Println, return, switch, case, n++.
	if n := statements(file); n != 8 {
		t.Errorf("%d statements", n)
	}
}
