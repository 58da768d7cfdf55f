package diag

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestOpsAreWhole: every row has a text, and its fields and sections exist and occur once.
func TestOpsAreWhole(t *testing.T) {
	var inputs, sections []string
	for i := range reflect.TypeFor[Request]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[Request]().Field(i).Tag.Get("json"), ",")
		inputs = append(inputs, name)
	}
	for _, i := range sectionFields() {
		name, _, _ := strings.Cut(reflect.TypeFor[Fact]().Field(i).Tag.Get("json"), ",")
		sections = append(sections, name)
	}
	filled := map[string]bool{}
	for i, row := range opRows {
		if row.Does == "" || row.Fills == "" || slices.Index(Ops(), row.Op) != i || row.Op.Row() != row {
			t.Errorf("the row of %s: %+v", row.Op, row)
		}
		for name := range strings.FieldsSeq(row.Asks) {
			if !slices.Contains(inputs, name) {
				t.Errorf("%s asks %s, which is no input of a request", row.Op, name)
			}
		}
		for name := range strings.FieldsSeq(row.Fills) {
			filled[name] = true
			if !slices.Contains(sections, name) {
				t.Errorf("%s fills %s, which is no section of a fact", row.Op, name)
			}
		}
	}
	for _, name := range sections {
		if !filled[name] {
			t.Errorf("no operation fills the section %s", name)
		}
	}
}

// TestSectionsSayWhichTheyAre: every part of a fact except Shortage and Denial is a section, and its properties are
// under its own wire name.
func TestSectionsSayWhichTheyAre(t *testing.T) {
	fact := reflect.TypeFor[Fact]()
	for i := range fact.NumField() {
		field := fact.Field(i)
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		f := &Fact{}
		reflect.ValueOf(f).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		// these explain why an operation ended; they are not measurements
		if field.Name == "Shortage" || field.Name == "Denial" {
			if !f.Empty() || len(f.Sections()) > 0 {
				t.Errorf("%s is taken for a section", field.Name)
			}
			continue
		}
		if f.Empty() || len(f.Sections()) != 1 {
			t.Errorf("a fact with %s alone is hollow: %v, sections %d; it needs Words and Properties", field.Name, f.Empty(),
				len(f.Sections()))
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		for _, property := range f.Sections()[0].Properties(f) {
			if property.Section() != name {
				t.Errorf("the section %s has a property %s", name, property.Field)
			}
		}
	}
}
