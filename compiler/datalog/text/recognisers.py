"""The recognisers of mistakes, in the order in which the parser tries them (see `mistakes`)."""

from __future__ import annotations

from dbsp.compiler.datalog.text import clause_mistakes, declaration_mistakes, sign_mistakes, term_mistakes

RECOGNISERS = (
    sign_mistakes.comment,
    sign_mistakes.text_in_other_quotes,
    sign_mistakes.prefixed_text,
    sign_mistakes.name_with_other_letters,
    declaration_mistakes.end_of_directive,
    declaration_mistakes.column,
    declaration_mistakes.columns,
    declaration_mistakes.type_form,
    clause_mistakes.statement,
    sign_mistakes.number,
    sign_mistakes.query_sign,
    sign_mistakes.negation,
    sign_mistakes.word,
    term_mistakes.aggregate,
    clause_mistakes.cut_or_list,
    sign_mistakes.semicolon_in_brackets,
    sign_mistakes.sign_of_another_language,
    sign_mistakes.rule_with_subsumption_sign,
    sign_mistakes.unexpected_character,
    term_mistakes.function,
    sign_mistakes.name_with_hyphen,
    term_mistakes.argument,
    term_mistakes.comparison_of_three,
    term_mistakes.functor_variable,
    clause_mistakes.trailing_comma,
    clause_mistakes.bracket,
    clause_mistakes.missing_comma,
    clause_mistakes.missing_end,
)
"""From the most specific one on: the first that knows a mistake reports it."""
