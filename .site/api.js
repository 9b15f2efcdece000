/** Reference of the public API: one page per entry of the library and the client, generated from the types' comments. */
import { join } from 'node:path'
import { Application } from 'typedoc'
import { pagesDir, read, rootDir } from './links.js'

/** Lists the entries of a package with their source files. */
function listEntries(folder) {
  const { name, exports } = JSON.parse(read(join(folder, 'package.json')))
  const entries = Object.entries(exports).filter(([, target]) => typeof target !== 'string')
  return entries.map(([path, { types }]) => {
    // The client's types in dist/client/ are built from src/client/, and the library's in dist/ from src/.
    const source = join(rootDir, types.replace('./dist/', 'src/').replace(/\.d\.ts$/, '.ts'))
    return { text: name + path.slice(1), source, link: `/api/${name}${path.slice(1)}.md` }
  })
}

/** Writes the pages of the API. @returns the name and the address of each */
export async function writeApi() {
  const entries = [...listEntries('.'), ...listEntries('src/client')]
  const app = await Application.bootstrapWithPlugins({
    ...JSON.parse(read('.site/typedoc.json')),
    entryPoints: entries.map(({ source }) => source),
    tsconfig: join(rootDir, '.site/tsconfig.json'),
    outputs: [{ name: 'markdown', path: join(pagesDir, 'api') }]
  })
  // TypeScript has lost the name of this union of codes.
  app.renderer.on('endPage', (page) => {
    page.contents = page.contents?.replaceAll(/(?:[\\| ]*`"ERR_\w+"`){10,}/g, ' `DidAuthErrorCode`')
  })
  const points = app.getEntryPoints() ?? []
  for (const point of points)
    point.displayName = entries.find(({ source }) => source === point.sourceFile.fileName).text
  await app.generateOutputs(app.converter.convert(points))
  return entries.map(({ text, link }) => ({ text, link }))
}
