#include "trace/trace.h"

#include <string.h>

typedef struct {
    ls_buf text, required, lines; // with a comma after every item
    int level;                    // level of the object's first field; negative: no field yet
} schema;

static void add_field(schema *z, const char *type, const char *name, int level, const char *unit, const char *sentence,
                      const char *json) {
    static const char *const levels[] = {"", "; from level nodes on", "; at level full"};
    static const char omitted[] = "OPTIONAL KEPT NOTE REASON CHANCE PLACE SAID ROUTES DRAWS ENDS";
    if (z->level < 0) z->level = level;
    const char *only = levels[level > z->level ? level : 0];
    if (level <= z->level && ls_str_among((ls_str){type, strlen(type)}, omitted) < 0)
        ls_buf_fmt(&z->required, "\"%s\",", name);
    ls_buf_fmt(&z->text, "\"%s\":{\"description\":\"%s%s%s%s%s\",%s},", name, sentence, *unit ? " [" : "", unit,
               *unit ? "]" : "", only, json);
}

static void end_object(schema *z) {
    ls_buf_fmt(&z->text, "},\"required\":[%s]},", z->required.p);
    ls_buf_clear(&z->required);
    z->level = -1;
}

// The types of trace_fields.def in JSON Schema.
// clang-format off
#define WORDS(x) #x
#define TYPE(x) "\"type\":\"" x "\""
#define LIST_OF(x) TYPE("array") ",\"items\":{" x "}"
#define REF(object) "\"$ref\":\"#/$defs/" #object "\""
#define JSON_TEXT(v) TYPE("string")
#define JSON_BUF JSON_TEXT
#define JSON_FORMAT(v) "\"const\":\"" v "\""
#define JSON_HASH(v) TYPE("string") ",\"pattern\":\"^[0-9a-f]{16}$\""
#define JSON_NAME(v, name_of, first, end) ({ \
    ls_buf_clear(&names); \
    for (int i = first; i < (int)(end); i++) ls_buf_fmt(&names, "%s\"%s\",", i > first ? "" : "\"enum\":[", name_of(i)); \
    ls_buf_str(&names, "]"); \
    names.p; \
})
#define JSON_REASON JSON_NAME
#define JSON_LEVEL JSON_NAME
#define JSON_BOOL(v) TYPE("boolean")
#define JSON_INT(v, lowest, highest) TYPE("integer") ",\"minimum\":" WORDS(lowest)
#define JSON_TURN(v) JSON_INT(v, 0, 0)
#define JSON_VERSION(v) "\"const\":" WORDS(v)
#define JSON_NUMBER(v, digits) "\"type\":[\"number\",\"null\"]"
#define JSON_TIME(v, digits) TYPE("number") ",\"minimum\":0"
#define JSON_SLOPE JSON_TIME
#define JSON_OPTIONAL JSON_TIME
#define JSON_CHANCE(v, digits) TYPE("number") ",\"exclusiveMinimum\":0,\"maximum\":1"
#define JSON_PLACE(v, most) JSON_INT(v, 1, most)
#define JSON_SAID(v, n) LIST_OF(JSON_OBJECT(v, said))
#define JSON_SAID_TOP(v) JSON_TOP(v, 0)
#define JSON_DRAWS JSON_IDS
#define JSON_ROUTES(v) JSON_TOP(v, 0)
#define JSON_ENDS JSON_IDS
#define JSON_KEPT(v, most) JSON_INT(v, 0, most)
#define JSON_NOTE JSON_TEXT
#define JSON_METHOD JSON_TEXT
#define JSON_MEASURED(v, digits) JSON_NUMBER(v, digits) ",\"minimum\":0"
#define JSON_IDS(...) LIST_OF(JSON_INT(v, 0, 0))
#define JSON_ROWS JSON_IDS
#define JSON_TIMES(...) LIST_OF(JSON_TIME(v, 0))
#define JSON_TOP(v, n) LIST_OF(LIST_OF(TYPE("number")) ",\"minItems\":2,\"maxItems\":2")
#define JSON_LAST_TOP JSON_TOP
#define JSON_TEXTS(v, part) TYPE("object") ",\"additionalProperties\":{" TYPE("string") "}"
#define JSON_OBJECT(v, object) TYPE("object") "," REF(object)
#define JSON_COSTS(v, object) "\"type\":[\"object\",\"null\"]," REF(object)
#define JSON_LIST(v, n, part, object) LIST_OF(JSON_OBJECT(v, object))
#define ROOT_OR(root, other) root
#define OBJECT(object, type) ls_buf_str(&z.text, "\"" #object "\":{\"additionalProperties\":false,\"properties\":{");
#define LINE(line, type, sentence) OBJECT(line, type) \
    add_field(&z, "", "type", LS_LEVEL_STEPS, "", sentence, "\"const\":\"" #line "\""); \
    ls_buf_str(&z.lines, "{" REF(line) "},");
#define FIELD(type, name, place, level, unit, sentence, ...) \
    add_field(&z, #type, name, LS_LEVEL_##level, unit, sentence, JSON_##type(place, ##__VA_ARGS__));
#define TOLD FIELD
#define END end_object(&z);
// clang-format on

void ls_trace_schema(ls_buf *out) {
    schema z = {.level = -1};
    ls_buf names = {0};
    ls_buf_str(&z.text, "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$defs\":{");
#include "trace/trace_fields.def"
    ls_buf_fmt(&z.text, "},\"title\":\"" LS_TRACE_FORMAT ": one line\",\"type\":\"object\",\"oneOf\":[%s]}\n",
               z.lines.p);
    for (const char *p = z.text.p; *p; p++) // omit the comma after a last item
        if (*p != ',' || !strchr("]}", p[1])) ls_buf_char(out, *p);
    ls_buf_free(&z.text);
    ls_buf_free(&z.required);
    ls_buf_free(&z.lines);
    ls_buf_free(&names);
}
