<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>
<xsl:output method='text'/>
<xsl:template match='/rows'>
<xsl:for-each select='row'><xsl:sort select='name'/><xsl:value-of select='name'/><xsl:text>&#10;</xsl:text></xsl:for-each>
</xsl:template>
</xsl:stylesheet>
