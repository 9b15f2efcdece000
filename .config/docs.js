/**
 * `npm run docs` compares tables of the documents with the code. `-- --update` writes them. The column that explains a
 * row is written by hand and is preserved.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { errorStatuses, errorTexts } from 'express-did-auth'
import ts from 'typescript'
import { optionVariables, variables } from '../servers/config/env-schema.ts'
import { serverPorts } from '../servers/config/read-env.ts'
import { serverErrors } from '../servers/http/server-error.ts'
import * as clientCodes from '../src/client/wire/error-codes.ts'
import { defaults } from '../src/config/options.ts'

const toPath = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url))
const read = (file) => readFileSync(toPath(file), 'utf8')
const formatCode = (text) => `\`${text}\``
const formatValue = (value) => formatCode(typeof value === 'string' ? value : JSON.stringify(value))

/** Text of the table of options in place of the default of a required option. */
const REQUIRED = 'required'

/** Joins the lines of a type as prettier would write it in one line. */
const joinLines = (type) =>
  type
    .replaceAll(/\s*\n\s*(?=[|}])/g, ' ')
    .replaceAll(/(?<=\{)\s*\n\s*/g, ' ')
    .replaceAll(/\s*\n\s*/g, '; ')
    .replace(/^\| /, '')

/** Lists the options with their defaults and types, required options first. Their meaning is written by hand. */
function listOptions() {
  const source = ts.createSourceFile('options.ts', read('src/config/options.ts'), ts.ScriptTarget.ES2023)
  const config = source.statements.find(({ name }) => name?.text === 'DidAuthConfig')
  const rows = config.members.map((member) => {
    const name = member.name.getText(source)
    const isRequired = member.questionToken === undefined
    const type = joinLines(member.type.getText(source)).replace(/ \| undefined$/, '')
    // The document describes a conditional or empty default in words.
    const defaultValue = isRequired ? REQUIRED : Object.hasOwn(defaults, name) ? formatValue(defaults[name]) : undefined
    return [formatCode(name), undefined, defaultValue, formatCode(type.replaceAll('|', '\\|'))]
  })
  const isRequired = ([, , defaultValue]) => defaultValue === REQUIRED
  return [...rows.filter(isRequired), ...rows.filter((row) => !isRequired(row))]
}

/** Lists the variables with their default, or that of the option that they set. */
function listVariables() {
  const options = new Map(optionVariables.map(({ variable, option }) => [variable, option]))
  return Object.entries(variables.shape).map(([name, form]) => {
    const defaultValue = form.safeParse(undefined).data ?? defaults[options.get(name)]
    const isInWords =
      defaultValue === undefined || defaultValue === '' || defaultValue === false || Array.isArray(defaultValue)
    if (name === 'PORT') return [formatCode(name), Object.values(serverPorts).map(formatValue).join(', ')]
    return [formatCode(name), isInWords ? undefined : formatValue(defaultValue)]
  })
}

const TABLES = [
  ['src/config/README.md', 'Options', listOptions()],
  [
    'src/config/README.md',
    'Errors',
    Object.entries(errorTexts).map(([code, text]) => [formatCode(code), String(errorStatuses[code]), text])
  ],
  ['servers/README.md', 'Environment variables', listVariables()],
  [
    'servers/README.md',
    'Errors of relay and vault',
    Object.entries(serverErrors).map(([code, [status, text]]) => [formatCode(code), String(status), text])
  ],
  [
    'src/client/README.md',
    'Errors of the client',
    [...read('src/client/wire/error-codes.ts').matchAll(/^export const (\w+)/gm)].map(([, code]) => [
      formatCode(code),
      clientCodes[code][2] === true ? 'yes' : 'no'
    ])
  ],
  [
    'test/bench/README.md',
    'Figures',
    JSON.parse(read('test/bench/figures.json')).map((one) => [
      one.id,
      one.what,
      one.goal,
      one.measured,
      formatCode(one.command)
    ])
  ]
]

const splitCells = (line) =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim())

/** Returns a document with these rows in the table below a heading. Undefined cells keep the text of their old row. */
function replaceTable(text, heading, rows) {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => line.replace(/^#+ /, '') === heading)
  const from = lines.findIndex((line, at) => at > start && line.startsWith('|'))
  const end = lines.findIndex((line, at) => at > from && !line.startsWith('|'))
  const width = splitCells(lines[from]).length
  const oldRows = new Map(lines.slice(from + 2, end).map((line) => [splitCells(line)[0], splitCells(line)]))
  const table = rows.map((row) => {
    const cells = Array.from({ length: width }, (_, column) => row[column] ?? oldRows.get(row[0])?.[column])
    const missingColumn = cells.findIndex((cell) => cell === undefined)
    if (missingColumn >= 0) {
      throw new Error(`${heading}: add a row for ${row[0]} by hand, with text in column ${missingColumn + 1}`)
    }
    return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
  })
  return [...lines.slice(0, from + 2), ...table, ...lines.slice(end)].join('\n')
}

/** Compares a part of a document with its expected text, or writes it. */
function compare(file, part, expected) {
  const text = read(file)
  if (text === expected) return
  if (process.argv.includes('--update')) writeFileSync(toPath(file), expected)
  else {
    const lines = text.split('\n')
    const expectedLine = expected.split('\n').find((line, at) => line !== lines[at])
    console.error(`${file}: ${part} differs. Run npm run docs -- --update. First difference:\n${expectedLine}`)
    process.exitCode = 1
  }
}

for (const [file, heading, rows] of TABLES) {
  compare(file, `the table "${heading}"`, replaceTable(read(file), heading, rows))
}

/** Chapter of a document, from its heading to the next one. */
const chapter = (heading) => new RegExp(`^## ${heading}\\n[^]*?(?=^## |(?![^]))`, 'm')
const CODE_RULES = chapter('Code rules')
const codeRules = `${CODE_RULES.exec(read('CONTRIBUTING.md'))[0].trimEnd()}\n`
compare(
  'AGENTS.md',
  'the copy of the code rules',
  read('AGENTS.md').replace(CODE_RULES, () => codeRules)
)
