/**
 * `npm run docs`: the tables of documents that tell what the code's own tables say. `-- --update` writes them. The last
 * column, what a row means, is written by hand and stays.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { errorStatuses, errorTexts } from 'express-did-auth'
import ts from 'typescript'
import { variables } from '../servers/config/env-schema.ts'
import { serverPorts } from '../servers/config/read-env.ts'
import { serverErrors } from '../servers/http/server-error.ts'
import * as clientCodes from '../src/client/error-codes.ts'
import { defaults } from '../src/config/options.ts'

const pathOf = (file) => fileURLToPath(new URL(`../${file}`, import.meta.url))
const read = (file) => readFileSync(pathOf(file), 'utf8')
const inCode = (text) => `\`${text}\``
const shown = (value) => inCode(typeof value === 'string' ? value : JSON.stringify(value))

/** Options, the required ones first, with the types of the configuration. */
function options() {
  const source = ts.createSourceFile('options.ts', read('src/config/options.ts'), ts.ScriptTarget.ES2023)
  const config = source.statements.find(({ name }) => name?.text === 'DidAuthConfig')
  const rows = config.members.map((member) => {
    const name = member.name.getText(source)
    const isRequired = member.questionToken === undefined
    const type = member.type.getText(source).replace(/ \| undefined$/, '')
    // A default that depends on something, or is nothing, is told in words.
    const standard = isRequired ? '' : Object.hasOwn(defaults, name) ? shown(defaults[name]) : undefined
    return [inCode(name), inCode(type.replaceAll('|', '\\|')), isRequired ? 'yes' : 'no', standard]
  })
  return [...rows.filter(([, , required]) => required === 'yes'), ...rows.filter(([, , required]) => required === 'no')]
}

/** Variables, with their own default or that of the option which they set. */
function environment() {
  const optionOf = (name) => name.toLowerCase().replaceAll(/_(\w)/g, (_match, letter) => letter.toUpperCase())
  return Object.entries(variables.shape).map(([name, form]) => {
    const own = form.safeParse(undefined).data ?? defaults[optionOf(name)]
    const isWord = own === undefined || own === '' || own === false || Array.isArray(own)
    if (name === 'PORT') return [inCode(name), Object.values(serverPorts).map(shown).join(', ')]
    return [inCode(name), isWord ? undefined : shown(own)]
  })
}

const TABLES = [
  ['src/config/README.md', 'Options', options()],
  [
    'src/config/README.md',
    'Errors',
    Object.entries(errorTexts).map(([code, text]) => [inCode(code), String(errorStatuses[code]), text])
  ],
  ['servers/README.md', 'Environment variables', environment()],
  [
    'servers/README.md',
    'Errors of relay and vault',
    Object.entries(serverErrors).map(([code, [status, text]]) => [inCode(code), String(status), text])
  ],
  [
    'src/client/README.md',
    'Errors of the client',
    [...read('src/client/error-codes.ts').matchAll(/^export const (\w+)/gm)].map(([, code]) => [
      inCode(code),
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
      inCode(one.command)
    ])
  ]
]

const cellsOf = (line) =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim())

/** A document whose table under a heading has these rows; what they leave open comes from the row of the same name. */
function withTable(text, heading, rows) {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => line.replace(/^#+ /, '') === heading)
  const from = lines.findIndex((line, at) => at > start && line.startsWith('|'))
  const end = lines.findIndex((line, at) => at > from && !line.startsWith('|'))
  const width = cellsOf(lines[from]).length
  const known = new Map(lines.slice(from + 2, end).map((line) => [cellsOf(line)[0], cellsOf(line)]))
  const table = rows.map((row) => {
    const cells = Array.from({ length: width }, (_, column) => row[column] ?? known.get(row[0])?.[column])
    const open = cells.findIndex((cell) => cell === undefined)
    if (open >= 0) throw new Error(`${heading}: write column ${open + 1} of a row for ${row[0]}`)
    return `| ${cells.join(' | ')} |`.replaceAll('|  |', '| |')
  })
  return [...lines.slice(0, from + 2), ...table, ...lines.slice(end)].join('\n')
}

for (const [file, heading, rows] of TABLES) {
  const text = read(file)
  const expected = withTable(text, heading, rows)
  if (text === expected) continue
  if (process.argv.includes('--update')) writeFileSync(pathOf(file), expected)
  else {
    const lines = text.split('\n')
    const wrong = expected.split('\n').find((line, at) => line !== lines[at])
    console.error(`${file}, ${heading}, is not what the code says: npm run docs -- --update\n${wrong}`)
    process.exitCode = 1
  }
}
