/** Words that open neither a noun phrase nor a sentence with a verb. */
const OPENINGS = 'What Of That By As In For From With Without To Where Who It They'.split(' ')
const COMMENT = new RegExp(`^[*\\s]*(${OPENINGS.join('|')})\\s`)
const TITLE = new RegExp(`^(${OPENINGS.join('|')})\\s`, 'i')

/** Returns the name behind `it`, `it.each` and `it.each(table)`; undefined for other expressions. */
function findRootName(node) {
  if (node.type === 'Identifier') return node.name
  return findRootName(node.object ?? node.callee ?? node.tag ?? { type: 'Identifier' })
}

/** Reports comments and test titles that open with a word of {@link OPENINGS}, and titles that are too long. */
const plainOpening = {
  meta: {
    type: 'suggestion',
    messages: {
      comment: '"{{word}}": open with a verb ("Returns…"), a noun phrase ("Time limit for…") or "Whether".',
      title: '"{{word}}": a title is a sentence in the present tense ("refuses a token that has expired").',
      length: 'A title has at most 100 characters.'
    }
  },
  create: (context) => ({
    Program() {
      for (const { value, loc } of context.sourceCode.getAllComments()) {
        const word = COMMENT.exec(value)?.[1]
        if (word !== undefined) context.report({ loc, messageId: 'comment', data: { word } })
      }
    },
    CallExpression({ callee, arguments: [title] }) {
      if (!['describe', 'it', 'test'].includes(findRootName(callee))) return
      const text = title?.type === 'TemplateLiteral' ? title.quasis[0].value.cooked : title?.value
      if (typeof text !== 'string') return
      const word = TITLE.exec(text)?.[1]
      if (word !== undefined) context.report({ node: title, messageId: 'title', data: { word } })
      if (text.length > 100) context.report({ node: title, messageId: 'length' })
    }
  })
}

export const plainLanguage = { rules: { 'plain-opening': plainOpening } }
